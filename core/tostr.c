/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_tostr and fi_tostr_r: values as the names of their bits and enumerators, structures as indented
 * "name: value" lines. What has no name is shown as a number, so nothing is lost.
 */
#include "core/tostr.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/export.h"
#include "core/base/log.h"
#include "core/core.h"
#include "core/tostr_priv.h"

#define TOSTR_BUF_SIZE 8192
#define INDENT	       4

/* Reads an unsigned number of the field's width; data need not be aligned. */
static uint64_t load(enum hm_kind kind, const void *at)
{
	uint64_t u64;
	uint32_t u32;
	uint16_t u16;

	switch (kind) {
	case HM_KIND_DEC8:
		return *(const uint8_t *)at;
	case HM_KIND_DEC16:
		memcpy(&u16, at, sizeof(u16));
		return u16;
	case HM_KIND_BITS32:
	case HM_KIND_ENUM32:
	case HM_KIND_INT:
	case HM_KIND_DEC32:
	case HM_KIND_HEX32:
	case HM_KIND_VERSION:
		memcpy(&u32, at, sizeof(u32));
		return u32;
	default:
		memcpy(&u64, at, sizeof(u64));
		return u64;
	}
}

static void print_bits(struct hm_text *text, const struct hm_names *names, uint64_t bits)
{
	const char *none = bits ? NULL : hm_name_of(names, 0);
	const char *separator = "";

	if (none)
		hm_text_add(text, "%s", none);
	for (size_t i = 0; i < names->count && bits; i++) {
		uint64_t value = names->names[i].value;

		if (value && (bits & value) == value) {
			hm_text_add(text, "%s%s", separator, names->names[i].name);
			separator = ", ";
			bits &= ~value;
		}
	}
	if (bits)
		hm_text_add(text, "%s0x%" PRIx64, separator, bits);
}

static void print_enum(struct hm_text *text, const struct hm_names *names, uint64_t value)
{
	const char *name = hm_name_of(names, value);

	if (name)
		hm_text_add(text, "%s", name);
	else
		hm_text_add(text, "%s (0x%" PRIx64 ")",
			    value & FI_PROV_SPECIFIC ? "Provider specific" : "Unknown", value);
}

void hm_print_value(struct hm_text *text, const struct hm_field *field, const void *at)
{
	uint64_t value;

	if (field->kind == HM_KIND_GROUP) {
		hm_print_group(text, field->group, at, 0);
		return;
	}
	if (field->kind == HM_KIND_FUNC) {
		field->print(text, at, 0);
		return;
	}
	value = load(field->kind, at);
	switch (field->kind) {
	case HM_KIND_BITS32:
	case HM_KIND_BITS64:
		print_bits(text, field->names, value);
		break;
	case HM_KIND_ENUM32:
	case HM_KIND_ENUM64:
		print_enum(text, field->names, value);
		break;
	case HM_KIND_INT:
		hm_text_add(text, "%" PRId32, (int32_t)value);
		break;
	case HM_KIND_HEX32:
	case HM_KIND_HEX64:
		hm_text_add(text, "0x%" PRIx64, value);
		break;
	case HM_KIND_PTR:
		hm_text_add(text, "%p", (void *)(uintptr_t)value);
		break;
	case HM_KIND_STRING:
		hm_text_add(text, "%s", value ? (const char *)(uintptr_t)value : "(null)");
		break;
	case HM_KIND_VERSION:
		hm_text_add(text, "%" PRIu64 ".%" PRIu64, FI_MAJOR(value), FI_MINOR(value));
		break;
	default:
		hm_text_add(text, "%" PRIu64, value);
		break;
	}
}

static void print_field(struct hm_text *text, const struct hm_field *field, const void *data,
			int depth)
{
	const void *at = (const char *)data + field->offset;
	bool bits = field->kind == HM_KIND_BITS32 || field->kind == HM_KIND_BITS64;
	const void *sub;

	if (field->kind == HM_KIND_FUNC && !field->name) {
		field->print(text, data, depth);
		return;
	}
	if (field->kind == HM_KIND_GROUP) {
		memcpy(&sub, at, sizeof(sub));
		if (sub)
			hm_print_group(text, field->group, sub, depth);
		else
			hm_text_add(text, "%*s%s: (null)\n", depth * INDENT, "",
				    field->group->name);
		return;
	}
	hm_text_add(text, "%*s%s: %s", depth * INDENT, "", field->name, bits ? "[ " : "");
	hm_print_value(text, field, at);
	hm_text_add(text, "%s\n", bits ? " ]" : "");
}

void hm_print_group(struct hm_text *text, const struct hm_group *group, const void *data, int depth)
{
	hm_text_add(text, "%*s%s:\n", depth * INDENT, "", group->name);
	for (size_t i = 0; i < group->count; i++)
		print_field(text, &group->fields[i], data, depth + 1);
}

/* As fi_version() has it. */
static void print_version(struct hm_text *text, const void *data, int depth)
{
	(void)data;
	(void)depth;
	hm_text_add(text, "%d.%d.%d", FI_MAJOR(HM_API_VERSION), FI_MINOR(HM_API_VERSION),
		    FI_REVISION_VERSION);
}

/* An object knows best how to show itself; its class and context are known without asking it. */
static void print_fid(struct hm_text *text, const void *data, int depth)
{
	const struct fid *fid = data;
	char own[TOSTR_BUF_SIZE];

	own[0] = '\0';
	if (fid->ops && FI_CHECK_OP(fid->ops, struct fi_ops, tostr) &&
	    fid->ops->tostr(fid, own, sizeof(own)) == 0) {
		own[sizeof(own) - 1] = '\0';
		hm_text_add(text, "%s", own);
		return;
	}
	hm_print_group(text, &hm_group_fid, fid, depth);
	if (fid->fclass == FI_CLASS_NIC)
		hm_print_group(text, &hm_group_nic, fid, depth);
}

static void print_log_name(struct hm_text *text, const char *name, unsigned int value)
{
	if (name)
		hm_text_add(text, "%s", name);
	else
		hm_text_add(text, "Unknown (0x%x)", value);
}

/* The words of FI_LOG_LEVEL and FI_LOG_SUBSYS, which libfabric prints, too. */
static void print_log_level(struct hm_text *text, const void *data, int depth)
{
	enum fi_log_level level = (enum fi_log_level)load(HM_KIND_ENUM32, data);

	(void)depth;
	print_log_name(text, hm_log_level_name(level), level);
}

static void print_log_subsys(struct hm_text *text, const void *data, int depth)
{
	enum fi_log_subsys subsys = (enum fi_log_subsys)load(HM_KIND_ENUM32, data);

	(void)depth;
	print_log_name(text, hm_log_subsys_name(subsys), subsys);
}

#define ENUM(set)                                                                                  \
	{                                                                                          \
		.kind = HM_KIND_ENUM32, .names = &hm_names_##set                                   \
	}
#define BITS(set)                                                                                  \
	{                                                                                          \
		.kind = HM_KIND_BITS64, .names = &hm_names_##set                                   \
	}
#define GROUP(sub)                                                                                 \
	{                                                                                          \
		.kind = HM_KIND_GROUP, .group = &hm_group_##sub                                    \
	}
#define FUNC(function)                                                                             \
	{                                                                                          \
		.kind = HM_KIND_FUNC, .print = (function)                                          \
	}

static const struct hm_field types[] = {
	[FI_TYPE_INFO] = GROUP(info),
	[FI_TYPE_EP_TYPE] = ENUM(ep_type),
	[FI_TYPE_CAPS] = BITS(caps),
	[FI_TYPE_OP_FLAGS] = BITS(op_flags),
	[FI_TYPE_ADDR_FORMAT] = ENUM(addr_format),
	[FI_TYPE_TX_ATTR] = GROUP(tx_attr),
	[FI_TYPE_RX_ATTR] = GROUP(rx_attr),
	[FI_TYPE_EP_ATTR] = GROUP(ep_attr),
	[FI_TYPE_DOMAIN_ATTR] = GROUP(domain_attr),
	[FI_TYPE_FABRIC_ATTR] = GROUP(fabric_attr),
	[FI_TYPE_THREADING] = ENUM(threading),
	[FI_TYPE_PROGRESS] = ENUM(progress),
	[FI_TYPE_PROTOCOL] = ENUM(protocol),
	[FI_TYPE_MSG_ORDER] = BITS(msg_order),
	[FI_TYPE_MODE] = BITS(mode),
	[FI_TYPE_AV_TYPE] = ENUM(av_type),
	[FI_TYPE_ATOMIC_TYPE] = ENUM(datatype),
	[FI_TYPE_ATOMIC_OP] = ENUM(atomic_op),
	[FI_TYPE_VERSION] = FUNC(print_version),
	[FI_TYPE_EQ_EVENT] = ENUM(eq_event),
	[FI_TYPE_CQ_EVENT_FLAGS] = BITS(cq_flags),
	[FI_TYPE_MR_MODE] = { .kind = HM_KIND_BITS32, .names = &hm_names_mr_mode },
	[FI_TYPE_OP_TYPE] = ENUM(op_type),
	[FI_TYPE_FID] = FUNC(print_fid),
	[FI_TYPE_COLLECTIVE_OP] = ENUM(collective_op),
	[FI_TYPE_HMEM_IFACE] = ENUM(hmem_iface),
	[FI_TYPE_CQ_FORMAT] = ENUM(cq_format),
	[FI_TYPE_LOG_LEVEL] = FUNC(print_log_level),
	[FI_TYPE_LOG_SUBSYS] = FUNC(print_log_subsys),
	[FI_TYPE_AV_ATTR] = GROUP(av_attr),
	[FI_TYPE_CQ_ATTR] = GROUP(cq_attr),
	[FI_TYPE_MR_ATTR] = GROUP(mr_attr),
	[FI_TYPE_CNTR_ATTR] = GROUP(cntr_attr),
	[FI_TYPE_CQ_ERR_ENTRY] = GROUP(cq_err_entry),
	[FI_TYPE_CQ_WAIT_COND] = ENUM(wait_cond),
	[FI_TYPE_WAIT_OBJ] = ENUM(wait_obj),
};

static_assert(count_of(types) == FI_TYPE_WAIT_OBJ + 1, "every value of enum fi_type has an entry");

HM_EXPORT char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype)
{
	struct hm_text text;

	hm_text_init(&text, buf, len);
	if ((unsigned int)datatype >= count_of(types))
		hm_text_add(&text, "Unknown type");
	else if (!data && datatype != FI_TYPE_VERSION)
		hm_text_add(&text, "(null)");
	else
		hm_print_value(&text, &types[datatype], data);
	return buf;
}

static pthread_key_t buffer_key;
static bool have_buffer_key; /* written once, under pthread_once */

static void make_buffer_key(void)
{
	have_buffer_key = pthread_key_create(&buffer_key, free) == 0;
}

/*
 * The thread's own buffer, or NULL.  Not _Thread_local: a library that is loaded late gets few bytes
 * of that, and what the data path keeps there must fit.
 */
static char *thread_buffer(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char *buf;

	pthread_once(&once, make_buffer_key);
	if (!have_buffer_key)
		return NULL;
	buf = pthread_getspecific(buffer_key);
	if (buf)
		return buf;
	buf = malloc(TOSTR_BUF_SIZE);
	if (buf && pthread_setspecific(buffer_key, buf)) {
		free(buf);
		buf = NULL;
	}
	return buf;
}

/* One buffer per thread: more than libfabric promises, and what its callers tend to rely on. */
HM_EXPORT char *fi_tostr(const void *data, enum fi_type datatype)
{
	static char shared[TOSTR_BUF_SIZE]; /* out of memory: as libfabric, one for all */
	char *buf = thread_buffer();

	return fi_tostr_r(buf ? buf : shared, TOSTR_BUF_SIZE, data, datatype);
}
