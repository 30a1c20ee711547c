/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma/fi_xpu_device.h uses of SYCL 2020 and of sycl_ext_oneapi_free_function_queries, declared as the
 * specification has it, so that a compiler which knows no SYCL sees whether the header keeps to it.
 */
#ifndef CHECK_SYCL_HPP
#define CHECK_SYCL_HPP

#include <stddef.h>

namespace sycl
{

enum class memory_order {
	relaxed,
	acquire,
	release,
	acq_rel,
	seq_cst
};

enum class memory_scope {
	work_item,
	sub_group,
	work_group,
	device,
	system
};

namespace access
{
enum class address_space {
	global_space,
	local_space,
	private_space,
	generic_space
};
} // namespace access

template <typename T> struct allowed {
	static const bool value = false;
};
template <> struct allowed<int> {
	static const bool value = true;
};
template <> struct allowed<unsigned long> {
	static const bool value = true;
};
template <> struct allowed<unsigned long long> {
	static const bool value = true;
};

/* 4.15.3: the default order is relaxed, acq_rel or seq_cst; a load may not release, a store may not acquire. */
template <typename T, memory_order DefaultOrder, memory_scope DefaultScope,
	  access::address_space Space = access::address_space::generic_space>
class atomic_ref
{
	static_assert(allowed<T>::value, "a type of the specification's list");
	static_assert(DefaultOrder == memory_order::relaxed ||
			      DefaultOrder == memory_order::acq_rel ||
			      DefaultOrder == memory_order::seq_cst,
		      "an order of the specification's list");

      public:
	explicit atomic_ref(T &);
	T load(memory_order order = DefaultOrder, memory_scope scope = DefaultScope) const noexcept;
	void store(T value, memory_order order = DefaultOrder,
		   memory_scope scope = DefaultScope) const noexcept;
	T fetch_add(T value, memory_order order = DefaultOrder,
		    memory_scope scope = DefaultScope) const noexcept;
	bool compare_exchange_strong(T &expected, T desired, memory_order success,
				     memory_order failure,
				     memory_scope scope = DefaultScope) const noexcept;
};

struct sub_group {
	bool leader() const;
};

template <int Dimensions> struct group {
	bool leader() const;
	size_t get_group_linear_range() const;
};

template <typename Group> void group_barrier(Group);
template <typename Group, typename T> T group_broadcast(Group, T);

namespace ext
{
namespace oneapi
{
namespace this_work_item
{
sycl::sub_group get_sub_group();
template <int Dimensions> sycl::group<Dimensions> get_work_group();
} // namespace this_work_item
} // namespace oneapi
} // namespace ext

} // namespace sycl

#endif
