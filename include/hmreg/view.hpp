/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is somebody else's: an address and a length in bytes.  hmreg_cxx(3)
 *
 * The address may be an accelerator's; nothing here reads or writes through it.
 */
#ifndef HMREG_VIEW_HPP
#define HMREG_VIEW_HPP

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if __cplusplus >= 202002L
#include <span>
#endif

namespace hmreg
{

/*
 * One type for C++17 and later, so that objects compiled for different standards fit together; where there
 * is std::span, it converts to one.
 */
template <class Byte> class basic_view
{
	using void_pointer = std::conditional_t<std::is_const_v<Byte>, const void *, void *>;

      public:
	constexpr basic_view() noexcept = default;
	basic_view(void_pointer data, std::size_t size) noexcept
		: data_(static_cast<Byte *>(data)), size_(size)
	{
	}
	/* What may be written may be read. */
	template <class Other, class = std::enable_if_t<std::is_convertible_v<Other *, Byte *>>>
	constexpr basic_view(const basic_view<Other> &other) noexcept
		: data_(other.data()), size_(other.size())
	{
	}
	constexpr Byte *data() const noexcept
	{
		return data_;
	}
	constexpr std::size_t size() const noexcept
	{
		return size_;
	}
	constexpr bool empty() const noexcept
	{
		return !size_;
	}
	std::uintptr_t address() const noexcept
	{
		return reinterpret_cast<std::uintptr_t>(data_);
	}
	/* A part of it.  Outside of it is a mistake. */
	basic_view part(std::size_t offset, std::size_t size) const noexcept
	{
		assert(offset <= size_ && size <= size_ - offset);
		return basic_view(data_ + offset, size);
	}
#if __cplusplus >= 202002L
	constexpr operator std::span<Byte>() const noexcept
	{
		return std::span<Byte>(data_, size_);
	}
#endif

      private:
	Byte *data_ = nullptr;
	std::size_t size_ = 0;
};

using view = basic_view<std::byte>;
using const_view = basic_view<const std::byte>;

template <class T>
using view_of = basic_view<std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>>;

/*
 * The bytes of size bytes at an address, of an array, and of whatever has data() and size(): std::vector,
 * std::array, std::string, std::span.  They have to outlive what is registered; temporaries are refused.
 */
inline view bytes(void *data, std::size_t size) noexcept
{
	return view(data, size);
}

inline const_view bytes(const void *data, std::size_t size) noexcept
{
	return const_view(data, size);
}

template <class T, std::size_t Count> view_of<T> bytes(T (&array)[Count]) noexcept
{
	static_assert(std::is_trivially_copyable_v<T>, "a peer copies bytes, and no objects");
	return view_of<T>(array, sizeof(array));
}

template <class Container,
	  class T = std::remove_pointer_t<decltype(std::declval<Container &>().data())>>
view_of<T> bytes(Container &container) noexcept
{
	static_assert(std::is_trivially_copyable_v<T>, "a peer copies bytes, and no objects");
	return view_of<T>(container.data(), container.size() * sizeof(T));
}

#if __cplusplus >= 202002L
template <class T, std::size_t Count> view_of<T> bytes(std::span<T, Count> span) noexcept
{
	static_assert(std::is_trivially_copyable_v<T>, "a peer copies bytes, and no objects");
	return view_of<T>(span.data(), span.size_bytes());
}
#endif

} // namespace hmreg

#endif
