/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every environment variable that the library reads, in one table (params.c). The environment is
 * read once, when the first parameter is asked for. A variable that is unset or empty has its
 * default; one that cannot be understood has its default too, and one warning says so.
 *
 * fi_getparams lists this table. A provider's own parameters (fi_param_define, fi_param_get of
 * rdma/fi_ext.h) are kept apart from it.
 */
#ifndef HM_BASE_PARAMS_H
#define HM_BASE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>

enum hm_param {
	HM_PARAM_LOG_LEVEL,
	HM_PARAM_LOG_PROV,
	HM_PARAM_LOG_SUBSYS,
	HM_PARAM_LOG_INTERVAL,
	HM_PARAM_PROVIDER,
	HM_PARAM_SW_ENABLE,
	HM_PARAM_SW_MAX_UNEXPECTED,
	HM_PARAM_SW_FAULT_GUARD,
	HM_PARAM_MR_MAX_COUNT,
	HM_PARAM_VERBS_ENABLE,
	HM_PARAM_VERBS_DEVICES,
	HM_PARAM_VERBS_MAX_MR_SIZE,
	HM_PARAM_VERBS_RX_BUFFERS,
	HM_PARAM_VERBS_MAX_UNEXPECTED,
	HM_PARAM_VERBS_RETRY_TIME,
	HM_PARAM_XPU_MAX_SLEEP,
	HM_PARAM_XPU_SPIN_TIME,
	HM_PARAM_HMEM,
	HM_PARAM_HMEM_DISABLE_P2P,
	HM_PARAM_DMABUF_KEEP,
	HM_PARAM_DMABUF_PCIE,
	HM_PARAM_MULTI_THREADS,
	HM_PARAM_MULTI_SIZE,
	HM_PARAM_CACHE_MAX_SIZE,
	HM_PARAM_CACHE_MAX_COUNT,
	HM_PARAM_CACHE_MONITOR,
	HM_PARAM_CACHE_CUDA,
	HM_PARAM_CACHE_ROCR,
	HM_PARAM_CACHE_ZE,
	HM_PARAM_CACHE_STATS,
	HM_PARAM_CACHE_STRICT,
	HM_PARAM_SYSFS,
	HM_PARAM_COUNT,
};

/* The getter must fit the type that the table gives. A string without value or default is NULL. */
const char *hm_param_str(enum hm_param id);
int hm_param_int(enum hm_param id);
bool hm_param_bool(enum hm_param id);
size_t hm_param_size(enum hm_param id);

/* What fi_getparams adds to the parameter's description: what it has come to. A copy is kept. */
void hm_param_note(enum hm_param id, const char *text);

/*
 * For log.c alone: the value without the report of values that cannot be understood, because that
 * report is itself logged.
 */
const char *hm_param_str_quiet(enum hm_param id);
int hm_param_int_quiet(enum hm_param id);

/*
 * The conversions, for the whole of text. Numbers may be decimal, 0x hexadecimal or 0 octal; sizes
 * may end in K, M, G or T (1024-based, either case), and -1 is the greatest size ("no limit").
 * Booleans are 0/1, off/on, false/true, no/yes. False: text is none, and out is unchanged.
 */
bool hm_parse_int(const char *text, int *out);
bool hm_parse_bool(const char *text, bool *out);
bool hm_parse_size(const char *text, size_t *out);

/*
 * Whether a comma-separated list of names selects name: "a,b" selects a and b, "^a,b" everything
 * else. No list, or an empty one, selects everything. Case does not matter.
 */
bool hm_list_selects(const char *list, const char *name);

/*
 * Steps through such a list: the next word, *len characters long and without the space around it,
 * or NULL at the end. The cursor starts as the list; a leading ^ belongs to no word.
 */
const char *hm_list_word(const char **cursor, size_t *len);

#endif
