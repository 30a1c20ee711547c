/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the programs about hmreg.hpp share: CMocka in C++, the port that they are run for, and what has to be
 * as it was when a case ends.
 */
#ifndef CXX_SCENE_HPP
#define CXX_SCENE_HPP

#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

extern "C" {
#include <cmocka.h>
}

/* For objects that say by an explicit conversion whether they hold something. */
#undef assert_true
#define assert_true(holds) _assert_true(!!(holds), #holds, __FILE__, __LINE__)
#undef assert_false
#define assert_false(holds) _assert_true(!(holds), "!(" #holds ")", __FILE__, __LINE__)

#include <hmreg/hmreg.hpp>

#include "tests/fds.h"

/* The domain of HMREG_TEST_DOMAIN; NULL: the first. */
inline hmreg::hints cxx_hints()
{
	hmreg::hints hints;

	hints.domain = std::getenv("HMREG_TEST_DOMAIN");
	return hints;
}

/* Regions and endpoints that a domain has. */
inline hmreg_domain_stats cxx_stats(fid_domain *domain)
{
	hmreg_domain_stats stats{};
	hmreg_domain_ops *ops = nullptr;

	stats.size = sizeof(stats);
	assert_int_equal(fi_open_ops(&domain->fid, HMREG_DOMAIN_OPS, 0,
				     reinterpret_cast<void **>(&ops), nullptr),
			 0);
	assert_int_equal(ops->stats(&domain->fid, &stats), 0);
	return stats;
}

/* What destructors could not close since the last case began. */
inline int cxx_unclosed;
inline hmreg::failure cxx_last_unclosed;

inline void cxx_count_unclosed(const hmreg::failure &failed) noexcept
{
	cxx_unclosed++;
	cxx_last_unclosed = failed;
}

inline std::size_t cxx_fds;

inline int cxx_setup(void **)
{
	hmreg::close_failed = cxx_count_unclosed;
	cxx_unclosed = 0;
	cxx_fds = test_fds();
	return 0;
}

inline int cxx_teardown(void **)
{
	std::size_t now = test_fds();

	if (now != cxx_fds)
		print_error("%zu file descriptors, %zu before\n", now, cxx_fds);
	if (cxx_unclosed)
		print_error("%d objects were not closed\n", cxx_unclosed);
	return now != cxx_fds || cxx_unclosed;
}

#define CXX_CASE(function) cmocka_unit_test_setup_teardown(function, cxx_setup, cxx_teardown)

/* The library keeps descriptors of its own from the first domain on: of a device, a driver. */
inline int cxx_warm_up(void **)
{
	auto port = hmreg::port::try_open(cxx_hints());

	if (!port) {
		print_error("%s: %s\n", port.error().operation, port.error().text());
		return 1;
	}
	return 0;
}

#endif
