/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How calls of hmreg.hpp fail: by a result that is looked at, or by an exception.  hmreg_cxx(3)
 *
 * A function whose name starts with try_ returns a result<T> and throws nothing.  Its namesake without
 * try_ returns the T and throws hmreg::error; those are there unless the program is compiled without
 * exceptions.  Codes are positive FI_E codes.
 */
#ifndef HMREG_RESULT_HPP
#define HMREG_RESULT_HPP

#include <cassert>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#ifdef __cpp_exceptions
#define HMREG_EXCEPTIONS 1
#else
#define HMREG_EXCEPTIONS 0
#endif

namespace hmreg
{

/* FI_E codes as std::error_code has them; those below FI_ERRNO_OFFSET equal std::errc. */
class error_category_type final : public std::error_category
{
      public:
	const char *name() const noexcept override
	{
		return "hmreg";
	}
	std::string message(int code) const override
	{
		return fi_strerror(code);
	}
	std::error_condition default_error_condition(int code) const noexcept override
	{
		if (code < FI_ERRNO_OFFSET)
			return std::error_condition(code, std::generic_category());
		return std::error_condition(code, *this);
	}
};

inline const std::error_category &error_category() noexcept
{
	static const error_category_type category;

	return category;
}

/* What failed, and how.  operation is the C call's name and constant; code 0: nothing failed. */
struct failure {
	int code = 0;
	const char *operation = "";

	const char *text() const noexcept
	{
		return fi_strerror(code);
	}
	std::error_code error_code() const noexcept
	{
		return std::error_code(code, error_category());
	}
};

/* The same as an exception: code() is of error_category(), what() "fi_domain: Device or resource busy". */
class error : public std::system_error
{
      public:
	explicit error(const failure &failed)
		: std::system_error(failed.error_code(), failed.operation), failed_(failed)
	{
	}
	const char *operation() const noexcept
	{
		return failed_.operation;
	}
	const failure &cause() const noexcept
	{
		return failed_;
	}

      private:
	failure failed_;
};

/* What all results have. */
class outcome
{
      public:
	bool has_value() const noexcept
	{
		return !failed_.code;
	}
	explicit operator bool() const noexcept
	{
		return has_value();
	}
	const failure &error() const noexcept
	{
		return failed_;
	}

      protected:
	outcome() noexcept = default;
	explicit outcome(const failure &failed) noexcept : failed_(failed)
	{
	}
	failure failed_;
};

/*
 * A T, or why there is none.  Each T here has an empty state, which is what a failed result holds; so no
 * storage is ever left without an object.  A moved-from result says what it said before, and its T is moved
 * from.  Reading the value of a failed one by * and -> is a mistake (assert); value() throws.
 */
template <class T> class [[nodiscard]] result : public outcome
{
	static_assert(std::is_nothrow_default_constructible_v<T> &&
		      std::is_nothrow_move_constructible_v<T>);

      public:
	result(T &&value) noexcept : value_(std::move(value))
	{
	}
	result(const failure &failed) noexcept : outcome(failed)
	{
		assert(failed.code);
	}
	T &operator*() &noexcept
	{
		assert(has_value());
		return value_;
	}
	const T &operator*() const &noexcept
	{
		assert(has_value());
		return value_;
	}
	T &&operator*() &&noexcept
	{
		assert(has_value());
		return std::move(value_);
	}
	T *operator->() noexcept
	{
		assert(has_value());
		return &value_;
	}
#if HMREG_EXCEPTIONS
	T value() &&
	{
		if (failed_.code)
			throw hmreg::error(failed_);
		return std::move(value_);
	}
#endif

      private:
	T value_{};
};

/* Done, or why not. */
template <> class [[nodiscard]] result<void> : public outcome
{
      public:
	result() noexcept = default;
	result(const failure &failed) noexcept : outcome(failed)
	{
	}
	/* From what a C call returned: 0 or more is success. */
	result(const char *operation, ssize_t ret) noexcept
	{
		if (ret < 0)
			failed_ = failure{ static_cast<int>(-ret), operation };
	}
#if HMREG_EXCEPTIONS
	void value() const
	{
		if (failed_.code)
			throw hmreg::error(failed_);
	}
#endif
};

} // namespace hmreg

#endif
