/* SPDX-License-Identifier: BSD-2-Clause */
/* hmreg.hpp in a program without exceptions and run-time types: results alone. */
#include "cxx_scene.hpp"

static_assert(!HMREG_EXCEPTIONS);

namespace
{

/* What throws is not declared, so that none is called by mistake. */
template <class T, class = void> constexpr bool has_close = false;
template <class T>
constexpr bool has_close<T, std::void_t<decltype(std::declval<T &>().close())>> = true;
static_assert(!has_close<hmreg::region> && !has_close<hmreg::port>);

/* One pointer each, as in C, and moved without a call. */
static_assert(sizeof(hmreg::region) == sizeof(fid_mr *));
static_assert(sizeof(hmreg::endpoint) == sizeof(fid_ep *));
static_assert(std::is_nothrow_move_constructible_v<hmreg::region>);
static_assert(std::is_nothrow_move_assignable_v<hmreg::region>);
static_assert(!std::is_copy_constructible_v<hmreg::region>);
static_assert(!std::is_copy_assignable_v<hmreg::port>);

/* The whole way, and the first failure's place. */
hmreg::result<void> write_to_itself(hmreg::port &port, hmreg::const_view from, hmreg::view to)
{
	auto source = port.domain().try_register_memory(from, FI_WRITE);
	if (!source)
		return source.error();
	auto target = port.domain().try_register_memory(to, FI_REMOTE_WRITE);
	if (!target)
		return target.error();
	auto name = port.endpoint().try_name();
	if (!name)
		return name.error();
	auto self = port.addresses().try_insert(*name);
	if (!self)
		return self.error();
	auto posted =
		port.endpoint().try_write(from, source->desc(), *self, port.remote(*target, to));
	if (!posted)
		return posted;
	auto done = port.queue().try_wait(5000);
	if (!done)
		return done.error();
	if (done->error)
		return hmreg::failure{ done->error, "operation" };
	return {};
}

void cxx_result_write(void **)
{
	auto port = hmreg::port::try_open(cxx_hints());
	char from[] = "without an exception", to[64] = "";

	assert_true(port);
	hmreg::result<void> done =
		write_to_itself(*port, hmreg::bytes(from), hmreg::bytes(to).part(0, sizeof(from)));
	assert_string_equal(done ? "" : done.error().operation, "");
	assert_string_equal(to, "without an exception");
	assert_int_equal(cxx_stats(port->domain().get()).regions, 0);
	assert_true(port->try_close());
}

void cxx_result_names_what_failed(void **)
{
	hmreg::hints hints;

	hints.domain = "no-such-domain";
	auto port = hmreg::port::try_open(hints);
	assert_false(port);
	assert_int_equal(port.error().code, FI_ENODATA);
	assert_string_equal(port.error().operation, "fi_getinfo");
	assert_string_equal(port.error().text(), fi_strerror(FI_ENODATA));
	hints = cxx_hints();
	auto open = hmreg::port::try_open(hints);
	assert_true(open);
	char memory[16] = "";
	auto refused = open->domain().try_register_memory(
		hmreg::bytes(memory), hmreg::registration(FI_SEND).flags(1ULL << 63));
	assert_int_equal(refused.error().code, FI_EBADFLAGS);
	assert_string_equal(refused.error().operation, "fi_mr_regattr");
	auto file = open->domain().try_register_dmabuf(-1, 0, 16, nullptr, FI_SEND);
	assert_false(file);
	hmreg::address nobody;
	nobody.size = sizeof(nobody.bytes);
	auto lost = open->addresses().try_insert(nobody);
	assert_false(lost);
	assert_string_equal(lost.error().operation, "fi_av_insert");
}

void cxx_result_lists_ports(void **)
{
	auto ports = hmreg::info_list::try_find();
	int count = 0;

	assert_true(ports);
	for (fi_info &info : *ports) {
		assert_non_null(info.domain_attr->name);
		count++;
	}
	assert_in_range(count, 1, 1000);
	hmreg::info_list moved = std::move(*ports);
	assert_null(ports->get());
	hmreg::info_list &alias = moved;
	moved = std::move(alias);
	assert_non_null(moved.get());
}

/* What is in use stays open, and can be closed afterwards. */
void cxx_result_busy(void **)
{
	auto port = hmreg::port::try_open(cxx_hints());
	char memory[64] = "";

	assert_true(port);
	auto region = port->domain().try_register_memory(hmreg::bytes(memory), FI_SEND);
	assert_true(region);
	hmreg::result<void> closed = port->try_close();
	assert_int_equal(closed.error().code, FI_EBUSY);
	assert_string_equal(closed.error().operation, "fi_close");
	assert_int_equal(cxx_stats(port->domain().get()).regions, 1);
	assert_true(region->try_close());
	assert_true(port->try_close());
	assert_int_equal(cxx_unclosed, 0);
}

} // namespace

int main(void)
{
	const CMUnitTest tests[] = {
		CXX_CASE(cxx_result_write),
		CXX_CASE(cxx_result_names_what_failed),
		CXX_CASE(cxx_result_lists_ports),
		CXX_CASE(cxx_result_busy),
	};

	return cmocka_run_group_tests(tests, cxx_warm_up, nullptr);
}
