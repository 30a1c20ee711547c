/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg.hpp with exceptions: that objects own what they say, that failures are told whole, and that bytes
 * arrive.  Compiled for C++17 and for C++20.
 */
#include <array>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "cxx_scene.hpp"

namespace
{

constexpr std::uint64_t remote_access = FI_REMOTE_READ | FI_REMOTE_WRITE;

hmreg::port open_port(std::uint64_t more_caps = 0)
{
	hmreg::hints hints = cxx_hints();

	hints.caps |= more_caps;
	return hmreg::port::open(hints);
}

fi_addr_t self_of(hmreg::port &port)
{
	return port.addresses().insert(port.endpoint().name());
}

/* ---- bytes arrive ---- */

void cxx_writes_and_reads(void **)
{
	hmreg::port port = open_port();
	std::vector<std::uint32_t> from(1000, 0x12345678u);
	std::array<std::uint32_t, 1002> to{};
	std::string back(4000, ' ');
	hmreg::view middle = hmreg::bytes(to).part(4, 4000);
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_WRITE);
	auto target = port.domain().register_memory(middle, remote_access);
	auto result = port.domain().register_memory(hmreg::bytes(back), FI_READ);
	fi_addr_t self = self_of(port);
	int mark = 0;

	port.endpoint().write(hmreg::bytes(from), source.desc(), self, port.remote(target, middle),
			      &mark);
	assert_ptr_equal(port.queue().wait(5000).context, &mark);
	assert_int_equal(to.front(), 0);
	assert_int_equal(to.back(), 0);
	assert_memory_equal(&to[1], from.data(), 4000);
	port.endpoint().read(hmreg::bytes(back).part(0, 100), result.desc(), self,
			     port.remote(target, middle).at(40));
	port.queue().wait(5000);
	assert_memory_equal(back.data(), &to[11], 100);
	assert_int_equal(back[100], ' ');
}

void cxx_sends_and_receives(void **)
{
	hmreg::port port = open_port();
	char from[] = "a message", to[64] = "";
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_SEND);
	auto target = port.domain().register_memory(hmreg::bytes(to), FI_RECV);
	fi_addr_t self = self_of(port);
	std::size_t received = 0;

	port.endpoint().receive(hmreg::bytes(to), target.desc());
	port.endpoint().send(hmreg::bytes(from), source.desc(), self);
	for (int i = 0; i < 2; i++) {
		hmreg::completion done = port.queue().wait(5000);
		if (done.flags & FI_RECV)
			received = done.size;
	}
	assert_int_equal(received, sizeof(from));
	assert_string_equal(to, "a message");
}

/* A part has a key of its own, and holds its base. */
void cxx_part_of_a_region(void **)
{
	hmreg::port port = open_port();
	std::vector<char> memory(3 * 4096, 0);
	char from[16] = "into a part";
	hmreg::view part = hmreg::bytes(memory).part(4096, 4096);
	auto base = port.domain().register_memory(hmreg::bytes(memory), FI_REMOTE_READ);
	auto window = port.domain().register_part(base, part, FI_REMOTE_WRITE);
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_WRITE);

	assert_int_not_equal(window.key(), base.key());
	port.endpoint().write(hmreg::bytes(from), source.desc(), self_of(port),
			      port.remote(window, part));
	port.queue().wait(5000);
	assert_string_equal(&memory[4096], "into a part");
	assert_int_equal(base.try_close().error().code, FI_EBUSY);
	window.close();
	base.close();
}

void cxx_dmabuf(void **)
{
	constexpr std::size_t size = 2 * 4096;
	const char *domain = std::getenv("HMREG_TEST_DOMAIN");

	if (domain && std::strncmp(domain, "rxe", 3) == 0) {
		print_message("the kernel's driver takes no memfd for a dma-buf\n");
		skip();
	}
	hmreg::port port = open_port(FI_HMEM);
	int file = memfd_create("dma-buf", MFD_CLOEXEC);
	char from[] = "into a dma-buf";

	assert_true(file >= 0 && !ftruncate(file, size));
	void *seen = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	auto target = port.domain().register_dmabuf(file, 4096, 4096, seen, FI_REMOTE_WRITE);
	close(file);
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_WRITE);
	hmreg::view second = hmreg::bytes(seen, size).part(4096, 4096);
	port.endpoint().write(hmreg::bytes(from), source.desc(), self_of(port),
			      port.remote(target, second));
	port.queue().wait(5000);
	assert_string_equal(second.data(), "into a dma-buf");
	target.close();
	munmap(seen, size);
}

/* Memory of the emulated driver faults when the processor touches it. */
void cxx_device_memory(void **)
{
	constexpr std::size_t size = 8192;
	hmreg::port port = open_port(FI_HMEM);
	fid *fabric = &port.fabric().get()->fid;
	hmreg_hmem_ops *ops = nullptr;
	void *memory = nullptr;
	char from[] = "into a device", back[sizeof(from)] = "";

	assert_int_equal(fi_open_ops(fabric, HMREG_HMEM_OPS, 0, reinterpret_cast<void **>(&ops),
				     nullptr),
			 0);
	if (ops->alloc(fabric, FI_HMEM_CUDA, 0, HMREG_HMEM_DEVICE, size, &memory)) {
		print_message("no CUDA driver\n");
		port.close(); /* which skip() leaves without */
		skip();
	}
	auto target = port.domain().register_memory(
		hmreg::bytes(memory, size),
		hmreg::registration(FI_REMOTE_WRITE).on(FI_HMEM_CUDA, 0));
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_WRITE);
	port.endpoint().write(hmreg::bytes(from), source.desc(), self_of(port),
			      port.remote(target, hmreg::bytes(memory, size)));
	port.queue().wait(5000);
	assert_int_equal(ops->copy(fabric, back, memory, sizeof(back)), 0);
	assert_string_equal(back, from);
	target.close();
	assert_int_equal(ops->free(fabric, FI_HMEM_CUDA, 0, HMREG_HMEM_DEVICE, memory), 0);
}

/* ---- who owns what ---- */

void cxx_moved_from_is_empty(void **)
{
	hmreg::port port = open_port();
	char memory[64] = "";
	auto first = port.domain().register_memory(hmreg::bytes(memory), FI_SEND);
	fid_mr *mr = first.get();
	hmreg::region second = std::move(first);

	assert_false(first); /* NOLINT: what a moved-from one is, is promised */
	assert_ptr_equal(second.get(), mr);
	assert_int_equal(cxx_stats(port.domain().get()).regions, 1);
	assert_true(first.try_close());
	hmreg::region &alias = second;
	second = std::move(alias);
	assert_ptr_equal(second.get(), mr);
	{
		hmreg::region third = std::move(second);
	}
	assert_int_equal(cxx_stats(port.domain().get()).regions, 0);
}

void cxx_assignment_closes_the_old_one(void **)
{
	hmreg::port port = open_port();
	char memory[64] = "";
	auto kept = port.domain().register_memory(hmreg::bytes(memory), FI_SEND);
	auto other = port.domain().register_memory(hmreg::bytes(memory), FI_SEND);
	fid_mr *mr = other.get();

	kept = std::move(other);
	assert_ptr_equal(kept.get(), mr);
	assert_int_equal(cxx_stats(port.domain().get()).regions, 1);
	hmreg::region given(kept.release());
	assert_false(kept);
	given.close();
	given.close(); /* closed is closed */
	assert_int_equal(cxx_stats(port.domain().get()).regions, 0);
}

void cxx_ports_are_moved_whole(void **)
{
	hmreg::port one = open_port(), other = open_port();
	fid_domain *domain = other.domain().get();
	hmreg::port &alias = one;

	one = std::move(other); /* closes what one had, endpoint first */
	assert_int_equal(cxx_unclosed, 0);
	assert_ptr_equal(one.domain().get(), domain);
	assert_null(other.domain().get()); /* NOLINT */
	one = std::move(alias);
	assert_ptr_equal(one.domain().get(), domain);
	other.close();
	one.close();
	one.close();
	assert_null(one.fabric().get());
}

/* ---- what is in use is not closed ---- */

void cxx_busy_is_told_and_nothing_lost(void **)
{
	hmreg::port port = open_port();
	char memory[64] = "";
	auto region = port.domain().register_memory(hmreg::bytes(memory), FI_SEND);
	fid_domain *domain = port.domain().get();
	bool thrown = false;

	try {
		port.close();
	} catch (const hmreg::error &error) {
		thrown = true;
		assert_true(error.code() == std::errc::device_or_resource_busy);
		assert_int_equal(error.cause().code, FI_EBUSY);
		assert_string_equal(error.operation(), "fi_close");
		assert_non_null(std::strstr(error.what(), fi_strerror(FI_EBUSY)));
	}
	assert_true(thrown);
	assert_ptr_equal(port.domain().get(), domain); /* what stands before it is closed */
	assert_null(port.endpoint().get());
	{
		auto another = port.domain().register_memory(hmreg::bytes(memory), FI_SEND);
		assert_int_equal(cxx_stats(domain).regions, 2);
	}
	region.close();
	port.close();
	assert_null(port.domain().get());
}

void cxx_destructor_tells_the_handler(void **)
{
	char memory[64] = "";
	hmreg::region left;
	fid_domain *domain = nullptr;
	fid_fabric *fabric = nullptr;
	{
		hmreg::port port = open_port();
		left = port.domain().register_memory(hmreg::bytes(memory), FI_SEND);
		domain = port.domain().get();
		fabric = port.fabric().get();
	}
	assert_int_equal(cxx_unclosed, 2); /* domain and fabric */
	assert_int_equal(cxx_last_unclosed.code, FI_EBUSY);
	assert_int_equal(cxx_stats(domain).regions, 1); /* as good as before */
	left.close();
	assert_int_equal(fi_close(&domain->fid), 0);
	assert_int_equal(fi_close(&fabric->fid), 0);
	cxx_unclosed = 0;
}

/* ---- failures ---- */

void cxx_unknown_domain(void **)
{
	hmreg::hints hints;
	bool thrown = false;

	hints.domain = "no-such-domain";
	try {
		hmreg::port::open(hints);
	} catch (const std::system_error &error) { /* what a program catches that knows no hmreg */
		thrown = true;
		assert_int_equal(error.code().value(), FI_ENODATA);
		assert_string_equal(error.code().category().name(), "hmreg");
		assert_string_equal(error.code().message().c_str(), fi_strerror(FI_ENODATA));
	}
	assert_true(thrown);
}

/* Codes of the interface's own are no errno values. */
void cxx_codes(void **)
{
	assert_true(hmreg::failure({ FI_EINVAL, "" }).error_code() == std::errc::invalid_argument);
	std::error_code own = hmreg::failure({ FI_ENOKEY, "" }).error_code();
	assert_true(own.default_error_condition().category() == own.category());
	assert_string_equal(own.message().c_str(), fi_strerror(FI_ENOKEY));
}

void cxx_const_memory(void **)
{
	hmreg::port port = open_port();
	static const char text[4096] = "only to be read";
	bool thrown = false;

	auto readable = port.domain().register_memory(hmreg::bytes(text),
						      FI_SEND | FI_WRITE | FI_REMOTE_READ);
	assert_true(readable);
	for (std::uint64_t access : { FI_RECV, FI_READ, FI_REMOTE_WRITE }) {
		auto refused = port.domain().try_register_memory(hmreg::bytes(text), access);
		assert_int_equal(refused.error().code, FI_EACCES);
	}
	try {
		port.domain().register_memory(hmreg::bytes(text), FI_REMOTE_WRITE);
	} catch (const hmreg::error &error) {
		thrown = true;
		assert_non_null(std::strstr(error.what(), "const memory"));
	}
	assert_true(thrown);
	assert_int_equal(cxx_stats(port.domain().get()).regions, 1);
}

/* Which operation failed, and why. */
void cxx_failed_operation(void **)
{
	hmreg::port port = open_port();
	char from[64] = "x", to[64] = "t";
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_WRITE);
	auto target = port.domain().register_memory(hmreg::bytes(to), FI_REMOTE_READ);
	fi_addr_t self = self_of(port);
	int mark = 0;
	bool thrown = false;

	port.endpoint().write(hmreg::bytes(from), source.desc(), self,
			      port.remote(target, hmreg::bytes(to)), &mark);
	try {
		port.queue().wait(5000);
	} catch (const hmreg::operation_error &error) {
		thrown = true;
		assert_ptr_equal(error.done().context, &mark);
		assert_int_equal(error.cause().code, FI_EACCES);
		assert_true(error.done().cause == HMREG_NO_RIGHT ||
			    error.done().cause == HMREG_REMOTE_ACCESS);
	}
	assert_true(thrown);
	assert_int_equal(to[0], 't');
	assert_int_equal(port.queue().try_wait(0).error().code, FI_EAGAIN);
}

/* ---- views ---- */

template <class T, class = void> constexpr bool can_be_viewed = false;
template <class T>
constexpr bool can_be_viewed<T, std::void_t<decltype(hmreg::bytes(std::declval<T>()))>> = true;

void cxx_views(void **)
{
	int numbers[4] = {};
	const std::vector<int> fixed(3);
	hmreg::view writable = hmreg::bytes(numbers);
	hmreg::const_view readable = writable;

	static_assert(std::is_same_v<decltype(hmreg::bytes(fixed)), hmreg::const_view>);
	static_assert(!std::is_convertible_v<hmreg::const_view, hmreg::view>);
	static_assert(can_be_viewed<std::vector<int> &> && !can_be_viewed<std::vector<int>>);
	assert_int_equal(readable.size(), sizeof(numbers));
	assert_int_equal(hmreg::bytes(fixed).size(), 12);
	assert_ptr_equal(writable.part(4, 8).data(), &numbers[1]);
	assert_int_equal(writable.part(16, 0).size(), 0);
#if __cplusplus >= 202002L
	std::span<int> span(numbers);
	hmreg::view of_span = hmreg::bytes(span.subspan(1, 2));
	std::span<std::byte> back = of_span;
	assert_ptr_equal(back.data(), &numbers[1]);
	assert_int_equal(back.size(), 8);
	static_assert(std::is_same_v<decltype(hmreg::bytes(std::span<const int>(fixed))),
				     hmreg::const_view>);
#endif
}

} // namespace

int main(void)
{
	const CMUnitTest tests[] = {
		CXX_CASE(cxx_writes_and_reads),
		CXX_CASE(cxx_sends_and_receives),
		CXX_CASE(cxx_part_of_a_region),
		CXX_CASE(cxx_dmabuf),
		CXX_CASE(cxx_device_memory),
		CXX_CASE(cxx_moved_from_is_empty),
		CXX_CASE(cxx_assignment_closes_the_old_one),
		CXX_CASE(cxx_ports_are_moved_whole),
		CXX_CASE(cxx_busy_is_told_and_nothing_lost),
		CXX_CASE(cxx_destructor_tells_the_handler),
		CXX_CASE(cxx_unknown_domain),
		CXX_CASE(cxx_codes),
		CXX_CASE(cxx_const_memory),
		CXX_CASE(cxx_failed_operation),
		CXX_CASE(cxx_views),
	};

	return cmocka_run_group_tests(tests, cxx_warm_up, nullptr);
}
