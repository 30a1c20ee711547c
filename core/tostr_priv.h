/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fi_tostr works, for the tostr*.c files: a value is described by a struct hm_field (what it is,
 * where it lies, what its numbers are called), and one printer follows the descriptions.
 */
#ifndef HM_TOSTR_PRIV_H
#define HM_TOSTR_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/* A text that is cut at the end of its buffer, always terminated; need is its whole length. */
struct hm_text {
	char *buf;
	size_t size;
	size_t need;
};

/* buf may be NULL: then the text is only measured. */
void hm_text_init(struct hm_text *text, char *buf, size_t size);
void hm_text_add(struct hm_text *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Append an address as hm_straddr writes it (tostr.h). */
void hm_text_addr(struct hm_text *text, uint32_t addr_format, const void *addr, size_t addrlen);

/* What a number is called: the value of an enumerator, or the bits of a flag. */
struct hm_name {
	uint64_t value;
	const char *name;
};

struct hm_names {
	const struct hm_name *names;
	size_t count;
};

extern const struct hm_names hm_names_addr_format, hm_names_atomic_op, hm_names_av_flags,
	hm_names_av_type, hm_names_bus_type, hm_names_caps, hm_names_class, hm_names_cntr_events,
	hm_names_collective_op, hm_names_comp_order, hm_names_cq_flags, hm_names_cq_format,
	hm_names_datatype, hm_names_ep_type, hm_names_eq_event, hm_names_hmem_iface,
	hm_names_link_state, hm_names_mode, hm_names_mr_mode, hm_names_msg_order, hm_names_op_flags,
	hm_names_op_type, hm_names_progress, hm_names_protocol, hm_names_resource_mgmt,
	hm_names_threading, hm_names_wait_cond, hm_names_wait_obj;

/* The name of value, or NULL. */
const char *hm_name_of(const struct hm_names *names, uint64_t value);

enum hm_kind {
	HM_KIND_BITS32,
	HM_KIND_BITS64,
	HM_KIND_ENUM32,
	HM_KIND_ENUM64,
	HM_KIND_INT,
	HM_KIND_DEC8,
	HM_KIND_DEC16,
	HM_KIND_DEC32,
	HM_KIND_DEC64,
	HM_KIND_HEX32,
	HM_KIND_HEX64,
	HM_KIND_PTR,
	HM_KIND_STRING,	 /* char * */
	HM_KIND_VERSION, /* major and minor in 16 bits each */
	HM_KIND_GROUP,	 /* pointer to a struct; within hm_print_value, the struct itself */
	HM_KIND_FUNC,
};

struct hm_group;

struct hm_field {
	const char *name;
	enum hm_kind kind;
	size_t offset;
	const struct hm_names *names; /* BITS and ENUM */
	const struct hm_group *group; /* GROUP */
	/* FUNC: prints the value that it finds in holder, or, when name is NULL, whole lines. */
	void (*print)(struct hm_text *text, const void *holder, int depth);
};

struct hm_group {
	const char *name;
	const struct hm_field *fields;
	size_t count;
};

extern const struct hm_group hm_group_info, hm_group_tx_attr, hm_group_rx_attr, hm_group_ep_attr,
	hm_group_domain_attr, hm_group_fabric_attr, hm_group_nic, hm_group_fid, hm_group_av_attr,
	hm_group_cq_attr, hm_group_mr_attr, hm_group_cntr_attr, hm_group_cq_err_entry;

/* What stands at the address: field's name and offset do not count. */
void hm_print_value(struct hm_text *text, const struct hm_field *field, const void *at);

/* A struct with its heading, every line of it indented by depth steps. */
void hm_print_group(struct hm_text *text, const struct hm_group *group, const void *data,
		    int depth);

#endif
