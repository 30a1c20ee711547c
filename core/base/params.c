/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of environment variables and the values that were found for them. */
#include "core/base/params.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/params_priv.h"

const struct hm_param_def hm_param_table[HM_PARAM_COUNT] = {
	[HM_PARAM_LOG_LEVEL] = { "FI_LOG_LEVEL", FI_PARAM_STRING, NULL,
				 "What to log on standard error: warn, trace, info or debug, each "
				 "including those before it (default: nothing)" },
	[HM_PARAM_LOG_PROV] = { "FI_LOG_PROV", FI_PARAM_STRING, NULL,
				"Providers to log, separated by commas; a leading ^ logs all "
				"others (default: all)" },
	[HM_PARAM_LOG_SUBSYS] = { "FI_LOG_SUBSYS", FI_PARAM_STRING, NULL,
				  "Subsystems to log, separated by commas; a leading ^ logs all "
				  "others: core, fabric, domain, ep_ctrl, ep_data, av, cq, eq, "
				  "mr, cntr (default: all)" },
	[HM_PARAM_LOG_INTERVAL] = { "FI_LOG_INTERVAL", FI_PARAM_INT, "2000",
				    "Milliseconds between two rate limited messages of one kind "
				    "(default: 2000)" },
	[HM_PARAM_PROVIDER] = { "FI_PROVIDER", FI_PARAM_STRING, NULL,
				"Providers to use, separated by commas; a leading ^ uses all "
				"others. The one here is hmreg (default: all)" },
	[HM_PARAM_SW_ENABLE] = { "HMREG_SW_ENABLE", FI_PARAM_BOOL, "1",
				 "List the software NIC among the interfaces (default: 1)" },
	[HM_PARAM_SW_MAX_UNEXPECTED] = { "HMREG_SW_MAX_UNEXPECTED", FI_PARAM_SIZE_T, "1G",
					 "Most bytes that one endpoint of the software NIC "
					 "buffers for messages without a posted receive; K, M, G "
					 "and T may follow the number (default: 1G)" },
	[HM_PARAM_SW_FAULT_GUARD] = { "HMREG_SW_FAULT_GUARD", FI_PARAM_BOOL, "1",
				      "Turn a transfer of the software NIC to or from unmapped "
				      "memory into an error completion, by a handler for SIGSEGV "
				      "and SIGBUS, instead of a crash (default: 1)" },
	[HM_PARAM_MR_MAX_COUNT] = { "HMREG_MR_MAX_COUNT", FI_PARAM_SIZE_T, "16777216",
				    "Most memory regions that one domain holds (default: "
				    "16777216)" },
	[HM_PARAM_VERBS_ENABLE] = { "HMREG_VERBS_ENABLE", FI_PARAM_BOOL, "1",
				    "Look for RDMA devices and list their ports (default: 1)" },
	[HM_PARAM_VERBS_DEVICES] = { "HMREG_VERBS_DEVICES", FI_PARAM_STRING, NULL,
				     "RDMA devices to use, separated by commas; a leading ^ uses "
				     "all others (default: all)" },
	[HM_PARAM_VERBS_MAX_MR_SIZE] = { "HMREG_VERBS_MAX_MR_SIZE", FI_PARAM_SIZE_T, "-1",
					 "Most bytes that are registered with an RDMA device in "
					 "one piece; longer regions are made of several. -1 is the "
					 "device's own limit (default: -1)" },
	[HM_PARAM_VERBS_RX_BUFFERS] = { "HMREG_VERBS_RX_BUFFERS", FI_PARAM_SIZE_T, "256",
					"Receive buffers of 4 KiB that an endpoint keeps posted "
					"for "
					"all its peers together (default: 256)" },
	[HM_PARAM_VERBS_MAX_UNEXPECTED] = { "HMREG_VERBS_MAX_UNEXPECTED", FI_PARAM_SIZE_T, "64M",
					    "Most bytes that an endpoint over an RDMA device keeps "
					    "of messages without a posted receive; senders wait "
					    "when it is reached (default: 64M)" },
	[HM_PARAM_VERBS_RETRY_TIME] = { "HMREG_VERBS_RETRY_TIME", FI_PARAM_INT, "2000",
					"Milliseconds until a peer that does not answer is taken "
					"for dead, roughly (default: 2000)" },
	[HM_PARAM_XPU_MAX_SLEEP] = { "HMREG_XPU_MAX_SLEEP", FI_PARAM_INT, "100",
				     "Most milliseconds from one look for requests of an idle XPU "
				     "to the next; 0 looks without pause and takes a processor "
				     "(default: 100)" },
	[HM_PARAM_XPU_SPIN_TIME] = { "HMREG_XPU_SPIN_TIME", FI_PARAM_INT, "50",
				     "Microseconds after a request of an XPU in which the next is "
				     "looked for without pause (default: 50)" },
	[HM_PARAM_HMEM] = { "FI_HMEM", FI_PARAM_STRING, NULL,
			    "Accelerator interfaces to use, separated by commas, of cuda, rocr, "
			    "ze, "
			    "neuron and synapseai, or none; a leading ^ uses all others (default: "
			    "all)" },
	[HM_PARAM_HMEM_DISABLE_P2P] = { "FI_HMEM_DISABLE_P2P", FI_PARAM_BOOL, "0",
					"Let no NIC reach accelerator memory itself: the software "
					"NIC copies it all the same, RDMA devices do not offer "
					"FI_HMEM, for dma-bufs neither (default: 0)" },
	[HM_PARAM_DMABUF_KEEP] = { "HMREG_DMABUF_KEEP", FI_PARAM_SIZE_T, "64",
				   "Most exported dma-bufs that stay open while a region of them "
				   "lives, so that the allocation's next region needs no export "
				   "of its own (default: 64)" },
	[HM_PARAM_DMABUF_PCIE] = { "HMREG_DMABUF_PCIE", FI_PARAM_STRING, NULL,
				   "NICs that reach accelerator memory by its PCI window even "
				   "where "
				   "there is a shorter way: domain names, or interface, device and "
				   "domain as in cuda:0/mlx5_0, separated by commas (default: "
				   "none)" },
	[HM_PARAM_MULTI_THREADS] = { "HMREG_MULTI_THREADS", FI_PARAM_INT, "8",
				     "Most threads that bring in the missing pages of a large "
				     "buffer, "
				     "the caller's included, which one call registers with several "
				     "NICs (default: 8)" },
	[HM_PARAM_MULTI_SIZE] = { "HMREG_MULTI_SIZE", FI_PARAM_SIZE_T, "16M",
				  "Bytes from which on such a buffer is large; -1: none is "
				  "(default: "
				  "16M)" },
	[HM_PARAM_CACHE_MAX_SIZE] = { "FI_MR_CACHE_MAX_SIZE", FI_PARAM_SIZE_T, "-1",
				      "Most bytes that a domain keeps registered of buffers that "
				      "come without a descriptor; 0 keeps none, -1 half of the "
				      "machine's memory (default: -1)" },
	[HM_PARAM_CACHE_MAX_COUNT] = { "FI_MR_CACHE_MAX_COUNT", FI_PARAM_SIZE_T, "65536",
				       "Most registrations that a domain keeps of such buffers; 0 "
				       "keeps none (default: 65536)" },
	[HM_PARAM_CACHE_MONITOR] = { "FI_MR_CACHE_MONITOR", FI_PARAM_STRING, NULL,
				     "What tells that host memory was given back, so that no "
				     "registration of it is kept: kdreg2, userfaultfd, memhooks, "
				     "or "
				     "disabled to keep none (default: the first of these that "
				     "works)" },
	[HM_PARAM_CACHE_CUDA] = { "FI_MR_CUDA_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL, "1",
				  "Keep registrations of CUDA memory (default: 1)" },
	[HM_PARAM_CACHE_ROCR] = { "FI_MR_ROCR_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL, "1",
				  "Keep registrations of ROCr memory (default: 1)" },
	[HM_PARAM_CACHE_ZE] = { "FI_MR_ZE_CACHE_MONITOR_ENABLED", FI_PARAM_BOOL, "1",
				"Keep registrations of Level Zero memory (default: 1)" },
	[HM_PARAM_CACHE_STATS] = { "HMREG_CACHE_STATS", FI_PARAM_STRING, NULL,
				   "A folder where the process keeps the figures of its "
				   "registration caches in a file, for hmreg-info --cache "
				   "(default: none)" },
	[HM_PARAM_CACHE_STRICT] = { "HMREG_CACHE_STRICT", FI_PARAM_BOOL, "0",
				    "With userfaultfd, ask the kernel before each use of a kept "
				    "registration instead of watching the C library's functions as "
				    "well: for programs that unmap in one thread and map in "
				    "another "
				    "by system calls of their own (default: 0)" },
	[HM_PARAM_SYSFS] = { "HMREG_SYSFS", FI_PARAM_STRING, "/sys",
			     "Where the kernel's sysfs is, for what it tells of RDMA devices and "
			     "of the PCI topology: that of a container's host, or a copy of "
			     "another "
			     "machine's (default: /sys)" },
};

/* Written by load() alone, before anybody can read it; the texts are kept until the process ends. */
static struct {
	char *text; /* as found in the environment; NULL when unset or empty */
	union hm_param_value value;
	bool bad;
} values[HM_PARAM_COUNT];

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static atomic_bool report_due;

bool hm_param_parse(enum fi_param_type type, const char *text, union hm_param_value *out)
{
	switch (type) {
	case FI_PARAM_STRING:
		out->str = text;
		return true;
	case FI_PARAM_INT:
		return hm_parse_int(text, &out->num);
	case FI_PARAM_BOOL:
		return hm_parse_bool(text, &out->on);
	case FI_PARAM_SIZE_T:
		return hm_parse_size(text, &out->size);
	}
	return false;
}

const char *hm_param_expected(enum fi_param_type type)
{
	switch (type) {
	case FI_PARAM_STRING:
		return "a string";
	case FI_PARAM_INT:
		return "an integer";
	case FI_PARAM_BOOL:
		return "one of 0/1, off/on, false/true, no/yes";
	case FI_PARAM_SIZE_T:
		return "a size (a number, K, M, G or T may follow, or -1 for no limit)";
	}
	return "of a known type";
}

static void load_one(enum hm_param id)
{
	const struct hm_param_def *def = &hm_param_table[id];
	const char *env = getenv(def->name);

	if (def->initial) {
		bool ok = hm_param_parse(def->type, def->initial, &values[id].value);

		assert(ok);
		(void)ok;
	}
	if (!env || !*env)
		return;
	/* A copy: the application may change its environment at any time. */
	values[id].text = strdup(env);
	if (!values[id].text || !hm_param_parse(def->type, values[id].text, &values[id].value)) {
		values[id].bad = true;
		atomic_store_explicit(&report_due, true, memory_order_relaxed);
	}
}

static void load(void)
{
	for (int id = 0; id < HM_PARAM_COUNT; id++)
		load_one((enum hm_param)id);
}

static void report(void)
{
	for (int id = 0; id < HM_PARAM_COUNT; id++) {
		const struct hm_param_def *def = &hm_param_table[id];

		if (values[id].bad)
			HM_WARN(FI_LOG_CORE, "%s=%s is not %s; the default %s is used", def->name,
				values[id].text ? values[id].text : "(out of memory)",
				hm_param_expected(def->type),
				def->initial ? def->initial : "(none)");
	}
}

static const union hm_param_value *lookup_quiet(enum hm_param id, enum fi_param_type type)
{
	pthread_once(&load_once, load);
	assert(id < HM_PARAM_COUNT && hm_param_table[id].type == type);
	(void)type;
	return &values[id].value;
}

static const union hm_param_value *lookup(enum hm_param id, enum fi_param_type type)
{
	const union hm_param_value *value = lookup_quiet(id, type);

	/* Outside load(): a message reads parameters itself. The first to come reports. */
	if (__builtin_expect(atomic_load_explicit(&report_due, memory_order_relaxed), 0) &&
	    atomic_exchange(&report_due, false))
		report();
	return value;
}

const char *hm_param_str(enum hm_param id)
{
	return lookup(id, FI_PARAM_STRING)->str;
}

int hm_param_int(enum hm_param id)
{
	return lookup(id, FI_PARAM_INT)->num;
}

bool hm_param_bool(enum hm_param id)
{
	return lookup(id, FI_PARAM_BOOL)->on;
}

size_t hm_param_size(enum hm_param id)
{
	return lookup(id, FI_PARAM_SIZE_T)->size;
}

const char *hm_param_str_quiet(enum hm_param id)
{
	return lookup_quiet(id, FI_PARAM_STRING)->str;
}

int hm_param_int_quiet(enum hm_param id)
{
	return lookup_quiet(id, FI_PARAM_INT)->num;
}
