/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A walk as text: a line for each step, its bytes for walk_load and behind # the call for people.
 * Objects are named by their slots: d domain, e endpoint, q completion queue, n counter, r region, m
 * mapped key; addresses count from the walk's memory M.
 */
#include "tests/walk/run.h"

#include <inttypes.h>
#include <string.h>

/* ---- calls ---- */

static const char *name_of(uint64_t bit)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} names[] = {
		{ FI_SEND, "SEND" },
		{ FI_RECV, "RECV" },
		{ FI_READ, "READ" },
		{ FI_WRITE, "WRITE" },
		{ FI_REMOTE_READ, "REMOTE_READ" },
		{ FI_REMOTE_WRITE, "REMOTE_WRITE" },
		{ FI_COLLECTIVE, "COLLECTIVE" },
		{ FI_TRANSMIT, "TRANSMIT" },
		{ FI_RMA_EVENT, "RMA_EVENT" },
		{ FI_MR_SINGLE_USE, "MR_SINGLE_USE" },
		{ FI_COMPLETION, "COMPLETION" },
		{ FI_DELIVERY_COMPLETE, "DELIVERY_COMPLETE" },
		{ FI_INJECT, "INJECT" },
		{ FI_REMOTE_CQ_DATA, "REMOTE_CQ_DATA" },
		{ FI_FENCE, "FENCE" },
		{ FI_SELECTIVE_COMPLETION, "SELECTIVE_COMPLETION" },
		{ FI_MSG, "MSG" },
		{ FI_RMA, "RMA" },
		{ FI_ATOMIC, "ATOMIC" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].bit == bit)
			return names[i].name;
	return NULL;
}

static void print_bits(FILE *out, uint64_t bits)
{
	const char *between = "";

	if (bits == 0)
		fputc('0', out);
	for (unsigned i = 0; i < 64; i++) {
		uint64_t bit = UINT64_C(1) << i;

		if (!(bits & bit))
			continue;
		if (name_of(bit))
			fprintf(out, "%s%s", between, name_of(bit));
		else
			fprintf(out, "%s0x%" PRIx64, between, bit);
		between = "|";
	}
}

static void print_range(FILE *out, const struct walk_range *range)
{
	if (range->at >= WALK_WRAPS)
		fprintf(out, "[0x%" PRIx64 ", +%" PRIu64 ")", range->at, range->len);
	else
		fprintf(out, "[M+0x%" PRIx64 ", +%" PRIu64 ")", range->at, range->len);
}

static void print_ranges(FILE *out, const struct walk_call *c)
{
	for (uint32_t i = 0; i < c->iov_count; i++) {
		fputs(i ? " + " : "", out);
		print_range(out, &c->iov[i]);
	}
}

static void print_odd(FILE *out, const struct walk_call *c)
{
	static const char *const text[] = {
		[WALK_ODD_NULL] = "an argument is NULL",
		[WALK_ODD_NO_OUT] = "nowhere for the result",
		[WALK_ODD_OFFSET] = "offset 1",
		[WALK_ODD_HMEM] = "hmem_data set",
		[WALK_ODD_PAGE] = "page_size 12345",
		[WALK_ODD_PAGE_OK] = "page_size set",
		[WALK_ODD_IFACE] = "iface CUDA, device 77",
		[WALK_ODD_FLAGS] = "unknown flags, or a number that is none",
		[WALK_ODD_SHORT] = "a short buffer",
		[WALK_ODD_NO_BUFFER] = "no buffer",
	};

	if (c->odd != WALK_ODD_NONE)
		fprintf(out, ", %s", text[c->odd]);
}

static void print_reg(FILE *out, const struct walk_call *c)
{
	static const char *const name[] = { "fi_mr_reg", "fi_mr_regv", "fi_mr_regattr" };

	fprintf(out, "r%d = %s(d%d, ", c->mr, name[c->form], c->domain);
	print_ranges(out, c);
	fputs(", access ", out);
	print_bits(out, c->access);
	fprintf(out, ", key 0x%" PRIx64 ", flags ", c->key);
	print_bits(out, c->flags);
	if (c->base != WALK_NONE)
		fprintf(out, ", base_mr r%d", c->base);
	print_odd(out, c);
	fputc(')', out);
}

static void print_bound(FILE *out, const struct walk_call *c)
{
	switch (c->bound) {
	case WALK_BIND_CNTR:
		fprintf(out, "n%d", c->cntr);
		break;
	case WALK_BIND_EP:
		fprintf(out, "e%d", c->ep);
		break;
	case WALK_BIND_CQ:
		fprintf(out, "q%d", c->cq);
		break;
	case WALK_BIND_AV:
		fprintf(out, "av of d%d", c->other);
		break;
	default:
		fputs("NULL", out);
		break;
	}
	fputs(", ", out);
	print_bits(out, c->flags);
	fputc(')', out);
}

static void print_seg(FILE *out, const struct walk_seg *seg)
{
	print_range(out, &seg->range);
	if (seg->desc == WALK_DESC_MR)
		fprintf(out, " desc r%d", seg->mr);
	else if (seg->desc == WALK_DESC_BOGUS)
		fputs(" desc of nobody", out);
}

static void print_remote(FILE *out, const struct walk_remote *r)
{
	fprintf(out, "[%s0x%" PRIx64 ", +%" PRIu64 ") by ", r->virt ? "M+" : "", r->addr, r->len);
	if (r->how == WALK_KEY_NUMBER)
		fprintf(out, "key 0x%" PRIx64, r->number);
	else
		fprintf(out, r->how == WALK_KEY_OF ? "the key of r%d" : "m%d", r->slot);
}

static const char *operation(const struct walk_call *c)
{
	static const char *const write[] = { "fi_write", "fi_writev", "fi_writemsg", "fi_writedata",
					     "fi_inject_write" };
	static const char *const read[] = { "fi_read", "fi_readv", "fi_readmsg" };
	static const char *const send[] = { "fi_send", "fi_sendv", "fi_sendmsg", "fi_senddata",
					    "fi_inject" };
	static const char *const recv[] = { "fi_recv", "fi_recvv", "fi_recvmsg" };
	static const char *const plain[] = { "fi_atomic", "fi_atomicv", "fi_atomicmsg", "",
					     "fi_inject_atomic" };
	static const char *const fetch[] = { "fi_fetch_atomic", "fi_fetch_atomicv",
					     "fi_fetch_atomicmsg" };
	static const char *const compare[] = { "fi_compare_atomic", "fi_compare_atomicv",
					       "fi_compare_atomicmsg" };

	if (c->kind == WALK_RMA)
		return c->reads ? read[c->form] : write[c->form];
	if (c->kind == WALK_SEND)
		return send[c->form];
	if (c->kind == WALK_RECV)
		return recv[c->form];
	return c->atomic == 0 ? plain[c->form] : c->atomic == 1 ? fetch[c->form] : compare[c->form];
}

static void print_operation(FILE *out, const struct walk_runner *r, const struct walk_call *c)
{
	int domain = r->model.ep[c->ep].domain;
	int to = r->model.domain[domain].addr[c->to].live
			 ? model_ep_by_id(&r->model, r->model.domain[domain].addr[c->to].ep)
			 : WALK_NONE;

	if (c->kind == WALK_CANCEL) {
		fprintf(out, "fi_cancel(e%d, context %u)", c->ep, c->context);
		return;
	}
	fprintf(out, "%s(e%d, ", operation(c), c->ep);
	for (uint32_t i = 0; i < c->segs; i++) {
		fputs(i ? " + " : "", out);
		print_seg(out, &c->seg[i]);
	}
	if (c->kind == WALK_ATOMIC) {
		fprintf(out, ", op %d on type %d", (int)c->op, (int)c->datatype);
		fputs(c->atomic > 0 ? ", result " : "", out);
		if (c->atomic > 0)
			print_seg(out, &c->result);
		fputs(c->atomic > 1 ? ", compare " : "", out);
		if (c->atomic > 1)
			print_seg(out, &c->compare);
	}
	if (c->kind != WALK_RECV)
		fprintf(out, to == WALK_NONE ? ", to nobody" : ", to e%d", to);
	for (uint32_t i = 0; i < c->remotes; i++) {
		fputs(i ? " + " : ", ", out);
		print_remote(out, &c->remote[i]);
	}
	fputs(", flags ", out);
	print_bits(out, c->flags);
	fprintf(out, "%s, context %u)", c->count_limit ? ", too many entries" : "", c->context);
}

static void print_key(FILE *out, const struct walk_call *c)
{
	static const char *const raw[] = { "",	     ", tampered with", ", cut",   "",
					   ", NULL", ", wrong base",	", flags", ", no result" };

	if (c->kind == WALK_UNMAP)
		fprintf(out, "fi_mr_unmap_key(d%d, m%d", c->domain, c->map);
	else if (c->raw == WALK_RAW_NARROW)
		fprintf(out, "m%d = fi_mr_map_raw(d%d, 8 bytes, key 0x%" PRIx64, c->map, c->domain,
			c->key);
	else
		fprintf(out, "m%d = fi_mr_map_raw(d%d, raw key of r%d%s", c->map, c->domain, c->mr,
			raw[c->raw]);
	print_odd(out, c);
	fputc(')', out);
}

static void print_region(FILE *out, const struct walk_call *c)
{
	static const char *const name[] = { [WALK_MR_CLOSE] = "fi_close",
					    [WALK_MR_ENABLE] = "fi_mr_enable",
					    [WALK_MR_REFRESH] = "fi_mr_refresh",
					    [WALK_RAW_ATTR] = "fi_mr_raw_attr",
					    [WALK_XPU_DESC] = "fi_mr_get_xpu_desc" };

	if (c->kind == WALK_REG) {
		print_reg(out, c);
	} else if (c->kind == WALK_MR_BIND) {
		fprintf(out, "fi_mr_bind(r%d, ", c->mr);
		print_bound(out, c);
	} else if (c->kind == WALK_MAP || c->kind == WALK_UNMAP) {
		print_key(out, c);
	} else {
		fprintf(out, "%s(r%d", name[c->kind], c->mr);
		fputs(c->iov_count ? ", " : "", out);
		print_ranges(out, c);
		print_odd(out, c);
		fputc(')', out);
	}
}

static void print_object(FILE *out, const struct walk_call *c)
{
	static const char *const set[] = { "fi_cntr_add", "fi_cntr_set", "fi_cntr_adderr",
					   "fi_cntr_seterr" };

	switch (c->kind) {
	case WALK_EP_OPEN:
		fprintf(out, "e%d = fi_endpoint(d%d, caps ", c->ep, c->domain);
		print_bits(out, c->caps);
		fputc(')', out);
		break;
	case WALK_EP_BIND:
		fprintf(out, "fi_ep_bind(e%d, ", c->ep);
		print_bound(out, c);
		break;
	case WALK_EP_ENABLE:
	case WALK_EP_CLOSE:
		fprintf(out, "%s(e%d)", c->kind == WALK_EP_ENABLE ? "fi_enable" : "fi_close",
			c->ep);
		break;
	case WALK_CNTR_OPEN:
		fprintf(out, "n%d = fi_cntr_open(d%d, %s)", c->cntr, c->domain,
			c->flags ? "bytes" : "operations");
		break;
	case WALK_CNTR_SET:
		fprintf(out, "%s(n%d, %" PRIu64 ")", set[c->form], c->cntr, c->value);
		break;
	case WALK_CNTR_CLOSE:
		fprintf(out, "fi_close(n%d)", c->cntr);
		break;
	case WALK_CQ_OPEN:
		fprintf(out, "q%d = fi_cq_open(d%d)", c->cq, c->domain);
		break;
	case WALK_CQ_CLOSE:
		fprintf(out, "fi_close(q%d)", c->cq);
		break;
	case WALK_AV_OPEN:
	case WALK_AV_CLOSE:
		fprintf(out, "%s(av of d%d)", c->kind == WALK_AV_OPEN ? "fi_av_open" : "fi_close",
			c->domain);
		break;
	case WALK_AV_INSERT:
		fprintf(out, "fi_av_insert(av of d%d, e%d) at %d", c->domain, c->ep, c->addr);
		break;
	case WALK_AV_REMOVE:
		fprintf(out, "fi_av_remove(av of d%d) of %d", c->domain, c->addr);
		break;
	default:
		fprintf(out, "%s(d%d)", c->kind == WALK_DOMAIN_OPEN ? "fi_domain" : "fi_close",
			c->domain);
		break;
	}
}

void walk_print_call(FILE *out, const struct walk_runner *r, const struct walk_call *c)
{
	if (c->kind >= WALK_RMA && c->kind <= WALK_CANCEL)
		print_operation(out, r, c);
	else if (c->kind >= WALK_REG && c->kind <= WALK_XPU_DESC)
		print_region(out, c);
	else
		print_object(out, c);
}

static const char *const kind_names[WALK_KINDS] = {
	[WALK_REG] = "register",
	[WALK_MR_CLOSE] = "close region",
	[WALK_MR_BIND] = "bind region",
	[WALK_MR_ENABLE] = "enable region",
	[WALK_MR_REFRESH] = "refresh",
	[WALK_RAW_ATTR] = "raw key",
	[WALK_MAP] = "map key",
	[WALK_UNMAP] = "unmap key",
	[WALK_XPU_DESC] = "descriptor",
	[WALK_EP_OPEN] = "open endpoint",
	[WALK_EP_BIND] = "bind endpoint",
	[WALK_EP_ENABLE] = "enable endpoint",
	[WALK_EP_CLOSE] = "close endpoint",
	[WALK_CNTR_OPEN] = "open counter",
	[WALK_CNTR_SET] = "set counter",
	[WALK_CNTR_CLOSE] = "close counter",
	[WALK_CQ_OPEN] = "open queue",
	[WALK_CQ_CLOSE] = "close queue",
	[WALK_AV_OPEN] = "open vector",
	[WALK_AV_CLOSE] = "close vector",
	[WALK_AV_INSERT] = "insert",
	[WALK_AV_REMOVE] = "remove",
	[WALK_DOMAIN_OPEN] = "open domain",
	[WALK_DOMAIN_CLOSE] = "close domain",
	[WALK_RMA] = "RMA",
	[WALK_ATOMIC] = "atomic",
	[WALK_SEND] = "send",
	[WALK_RECV] = "receive",
	[WALK_CANCEL] = "cancel",
};

void walk_print_tally(FILE *out, const struct walk_tally *tally)
{
	for (int i = 0; i < WALK_KINDS; i++)
		if (kind_names[i])
			fprintf(out, "%-16s %9" PRIu64 " done %9" PRIu64 " refused\n",
				kind_names[i], tally->done[i], tally->refused[i]);
	fprintf(out, "%" PRIu64 " sub-MRs, %" PRIu64 " deep, %" PRIu64 " transfers of bytes\n",
		tally->subs, tally->deepest, tally->moved);
	for (int i = 0; i < HMREG_ERROR_LAST; i++)
		if (tally->cause[i])
			fprintf(out, "%9" PRIu64 " completions of cause %d\n", tally->cause[i], i);
}

/* ---- files ---- */

void walk_print_step(FILE *out, const struct walk_step *step)
{
	size_t last = sizeof(step->b);

	while (last > 1 && step->b[last - 1] == 0)
		last--;
	fputs("step ", out);
	for (size_t i = 0; i < last; i++)
		fprintf(out, "%02x", step->b[i]);
	fputs("\t# ", out);
}

void walk_save(FILE *out, struct walk_runner *r, const struct walk_trace *trace)
{
	fprintf(out, "walk %s %s", model_break_names[r->broken],
		trace->config.faults ? "faults" : "no-faults");
	for (int i = 0; i < WALK_DOMAINS; i++)
		fprintf(out, " %s", walk_variants[trace->config.variant[i]].label);
	fprintf(out,
		"\n# d0, d1, d2 are these, each with an address vector, a queue q0, q1, q2 and a\n"
		"# counter n0, n1, n2; e0, e1, e2 are endpoints of theirs and e3 of d0, enabled\n");
	r->print = out;
	walk_trace(r, trace);
	r->print = NULL;
}

static int find_word(const char *word, const char *(*name)(int), int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(word, name(i)) == 0)
			return i;
	return -1;
}

static const char *break_name(int i)
{
	return model_break_names[i];
}

static const char *variant_label(int i)
{
	return walk_variants[i].label;
}

int walk_find_break(const char *word)
{
	return find_word(word, break_name, MODEL_BREAKS);
}

int walk_find_variant(const char *word)
{
	return find_word(word, variant_label, WALK_VARIANTS);
}

/* The first line that begins with "walk". */
static bool load_head(FILE *in, struct walk_runner *r, struct walk_trace *trace)
{
	char line[200] = "", word[WALK_DOMAINS + 1][32], faults[32];
	int broken;

	while (strncmp(line, "walk ", 5) != 0)
		if (!fgets(line, sizeof(line), in))
			return false;
	if (sscanf(line, "walk %31s %31s %31s %31s %31s", word[0], faults, word[1], word[2],
		   word[3]) != 5)
		return false;
	trace->config.faults = strcmp(faults, "faults") == 0;
	broken = walk_find_break(word[0]);
	if (broken < 0)
		return false;
	r->broken = (enum model_break)broken;
	for (int i = 0; i < WALK_DOMAINS; i++) {
		int variant = walk_find_variant(word[i + 1]);

		if (variant < 0)
			return false;
		trace->config.variant[i] = (uint8_t)variant;
	}
	return true;
}

static bool load_step(const char *line, struct walk_step *step)
{
	size_t at = 0;
	unsigned byte;

	memset(step, 0, sizeof(*step));
	for (; at < sizeof(step->b) && sscanf(line, "%2x", &byte) == 1 && line[1] != '\t';
	     line += 2)
		step->b[at++] = (uint8_t)byte;
	return at > 0 && (*line == '\t' || *line == '\n');
}

bool walk_load(FILE *in, struct walk_runner *r, struct walk_trace *trace)
{
	char line[1024];
	bool good = load_head(in, r, trace);

	trace->count = 0;
	trace->config.first_key = 1;
	while (good && fgets(line, sizeof(line), in)) {
		if (strncmp(line, "step ", 5) != 0)
			continue;
		if (trace->count == WALK_EPISODE + WALK_CLOSING)
			break;
		good = load_step(line + 5, &trace->step[trace->count++]);
	}
	if (!good)
		fprintf(stderr, "walk: not a walk's file, or a line that is none of it\n");
	return good;
}
