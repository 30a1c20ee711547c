/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs whose cases are the same for all interfaces: HMREG_TEST_HMEM names the one to be tested. */
#ifndef HMEM_BY_NAME_H
#define HMEM_BY_NAME_H

#include "tests/conformance/harness.h"
#include "tests/hmem/maker.h"

/* Registered and closed, so that what a driver has to say about such memory, once in a process, is said. */
static inline int hmem_try(struct conf_end *end, const struct fi_mr_attr *attr)
{
	unsigned int lines = 0;
	struct fid_mr *mr;
	int ret;

	conf_log_mark(__FILE__, __LINE__);
	ret = fi_mr_regattr(end->domain, attr, 0, &mr);
	for (const char *at = conf_log_text(); (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	conf_log_expect(lines, NULL, "registration", __FILE__, __LINE__);
	if (ret == 0)
		assert_ok(fi_close(&mr->fid));
	return ret;
}

/*
 * Since the mark there are no log lines but of what a registration cache does not keep, which is said once in
 * a process, whoever is the first.
 */
static inline void hmem_expect_unkept(const char *what)
{
	unsigned int lines = 0;

	for (const char *at = conf_log_text(); (at = strstr(at, " kept")) != NULL; at++)
		lines++;
	conf_log_expect(lines, NULL, what, __FILE__, __LINE__);
}

/* Of the kind, on the device at this place in the list; or the case is skipped. */
static inline struct made hmem_make(struct conf *c, const struct maker *maker, enum make kind,
				    size_t at, size_t len)
{
	int device = maker->device(at % maker->devices());
	const char *why = maker->cannot(kind, device);
	struct made made = { .kind = kind, .device = device };

	if (why)
		conf_skip(c, why);
	assert_int_equal(maker->make(kind, device, len, &made), 0);
	return made;
}

/* *maker: where the cases look for it.  As conf_main; 77: no such driver on this machine. */
static inline int hmem_main(int argc, char **argv, const struct maker **maker,
			    const struct conf_case *cases, size_t count)
{
	const char *name = getenv("HMREG_TEST_HMEM"), *why;

	*maker = name ? maker_of(name) : NULL;
	if (!*maker) {
		fprintf(stderr, "HMREG_TEST_HMEM: cuda, rocr, ze, neuron or synapseai\n");
		return 2;
	}
	why = (*maker)->open();
	if (why) {
		printf("skipped: %s: %s\n", (*maker)->name, why);
		return 77;
	}
	setenv("FI_LOG_LEVEL", "warn", 1); /* as the cases want it, before the library reads it */
	maker_warm_up(*maker);
	return conf_main(argc, argv, cases, count);
}

#endif
