/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_strerror: a text of its own for every code of the interface, and an answer for any number. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "core/base/errors.h"

/* Every code that rdma/fi_errno.h names, with the value that it has in libfabric. */
static const struct {
	int code;
	int value;
} codes[] = {
	{ FI_EPERM, 1 },	  { FI_ENOENT, 2 },
	{ FI_EINTR, 4 },	  { FI_EIO, 5 },
	{ FI_E2BIG, 7 },	  { FI_EBADF, 9 },
	{ FI_EAGAIN, 11 },	  { FI_ENOMEM, 12 },
	{ FI_EACCES, 13 },	  { FI_EFAULT, 14 },
	{ FI_EBUSY, 16 },	  { FI_ENODEV, 19 },
	{ FI_EINVAL, 22 },	  { FI_EMFILE, 24 },
	{ FI_ENOSPC, 28 },	  { FI_ENOSYS, 38 },
	{ FI_ENOMSG, 42 },	  { FI_ENODATA, 61 },
	{ FI_EPROTO, 71 },	  { FI_EOVERFLOW, 75 },
	{ FI_EMSGSIZE, 90 },	  { FI_ENOPROTOOPT, 92 },
	{ FI_EOPNOTSUPP, 95 },	  { FI_EADDRINUSE, 98 },
	{ FI_EADDRNOTAVAIL, 99 }, { FI_ENETDOWN, 100 },
	{ FI_ENETUNREACH, 101 },  { FI_ECONNABORTED, 103 },
	{ FI_ECONNRESET, 104 },	  { FI_ENOBUFS, 105 },
	{ FI_EISCONN, 106 },	  { FI_ENOTCONN, 107 },
	{ FI_ESHUTDOWN, 108 },	  { FI_ETIMEDOUT, 110 },
	{ FI_ECONNREFUSED, 111 }, { FI_EHOSTDOWN, 112 },
	{ FI_EHOSTUNREACH, 113 }, { FI_EALREADY, 114 },
	{ FI_EINPROGRESS, 115 },  { FI_EREMOTEIO, 121 },
	{ FI_ECANCELED, 125 },	  { FI_EKEYREJECTED, 129 },
	{ FI_EOTHER, 256 },	  { FI_ETOOSMALL, 257 },
	{ FI_EOPBADSTATE, 258 },  { FI_EAVAIL, 259 },
	{ FI_EBADFLAGS, 260 },	  { FI_ENOEQ, 261 },
	{ FI_EDOMAIN, 262 },	  { FI_ENOCQ, 263 },
	{ FI_ECRC, 264 },	  { FI_ETRUNC, 265 },
	{ FI_ENOKEY, 266 },	  { FI_ENOAV, 267 },
	{ FI_EOVERRUN, 268 },	  { FI_ENORX, 269 },
	{ FI_ENOMR, 270 },	  { FI_EFIREWALLADDR, 271 },
};

enum {
	CODES = sizeof(codes) / sizeof(codes[0])
};

static void api_01_strerror_every_code(void **state)
{
	(void)state;
	for (int i = 0; i < CODES; i++) {
		const char *text = fi_strerror(codes[i].code);

		assert_int_equal(codes[i].code, codes[i].value);
		assert_non_null(text);
		assert_true(strlen(text) > 3);
		assert_string_not_equal(text, HM_UNKNOWN_ERROR);
		/* Constant, and the same for what calls return. */
		assert_ptr_equal(text, fi_strerror(codes[i].code));
		assert_ptr_equal(text, fi_strerror(-codes[i].code));
		for (int n = 0; n < i; n++)
			assert_string_not_equal(text, fi_strerror(codes[n].code));
	}
}

static void api_01_strerror_every_system_code(void **state)
{
	(void)state;
	for (int code = 0; code < FI_ERRNO_OFFSET; code++) {
		int known = strerrordesc_np(code) != NULL;

		assert_int_equal(strcmp(fi_strerror(code), HM_UNKNOWN_ERROR) != 0, known);
	}
}

static void api_01_strerror_any_other_number(void **state)
{
	static const int unknown[] = { 41,	    58,		  134,
				       255,	    FI_ERRNO_MAX, FI_ERRNO_MAX + 1,
				       4711,	    INT_MAX,	  INT_MIN,
				       INT_MIN + 1, -FI_ERRNO_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		assert_string_equal(fi_strerror(unknown[i]), HM_UNKNOWN_ERROR);
}

static void api_01_strerror_says_what_it_means(void **state)
{
	(void)state;
	assert_string_equal(fi_strerror(0), "Success");
	assert_string_equal(fi_strerror(-FI_EINVAL), "Invalid argument");
	assert_string_equal(fi_strerror(FI_EAGAIN), fi_strerror(FI_EWOULDBLOCK));
	assert_non_null(strstr(fi_strerror(-FI_ETOOSMALL), "too small"));
	assert_non_null(strstr(fi_strerror(-FI_ENOKEY), "key"));
	assert_non_null(strstr(fi_strerror(-FI_ENOMR), "registration"));
}

static void strerror_keeps_errno(void **state)
{
	(void)state;
	errno = 4711;
	fi_strerror(FI_EINVAL);
	fi_strerror(4711);
	assert_int_equal(errno, 4711);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(api_01_strerror_every_code),
		cmocka_unit_test(api_01_strerror_every_system_code),
		cmocka_unit_test(api_01_strerror_any_other_number),
		cmocka_unit_test(api_01_strerror_says_what_it_means),
		cmocka_unit_test(strerror_keeps_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
