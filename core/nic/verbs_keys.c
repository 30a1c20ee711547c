/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Composite keys: a region of several verbs regions has one key, and whoever uses it asks the region's
 * owner once which parts there are, each with an rkey of its own.
 *
 * The initiator keeps a table per peer and key.  Keys are not used again, so a table stays right until
 * the region is closed; then the owner's NIC refuses the rkeys, the table is dropped, and the question
 * is asked anew.  That a key is unknown is not kept.
 *
 * What a peer sends is not trusted: an answer that nobody asked for, or that makes no sense, ends in an
 * error of the operations that wait for it, and reaches no memory that the peer's NIC does not check.
 *
 * All state is protected by verbs_ep.lock; verbs_domain.composites_lock is taken inside it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/nic/verbs_conn.h"

#define MAX_TABLES  64	       /* of one peer */
#define MAX_ANSWERS 16	       /* to one peer, that wait for a slot */
#define MAX_PARTS   (1u << 16) /* of one key */
#define PAGE_PARTS  (VERBS_FRAME / sizeof(struct verbs_wire_part))

enum state {
	ASKED,
	KNOWN,
	FAILED
};

struct verbs_key_table {
	struct hm_list link;  /* in verbs_peer.keys, the last used at the end */
	struct hm_list asked; /* in verbs_ep.key_queries while ASKED */
	struct verbs_peer *peer;
	uint64_t key, id;
	uint64_t deadline; /* ASKED: ms of the monotonic clock */
	enum state state;
	bool unsent; /* ASKED: the query found no slot */
	enum hmreg_error why;
	uint32_t count, total,
		room; /* parts that are here, that there are, and for which there is memory */
	uint64_t len; /* of the parts together: each begins where the one before ends */
	struct verbs_wire_part *part; /* owned */
};

/* An answer that waits for a slot. */
struct verbs_key_answer {
	struct hm_list link;
	struct verbs_peer *peer;
	uint64_t key, id, first;
};

/* ---- tables ---- */

static struct verbs_key_table *find_table(struct verbs_peer *peer, uint64_t key)
{
	hm_list_for_each(link, &peer->keys)
	{
		struct verbs_key_table *table = hm_list_entry(link, struct verbs_key_table, link);

		if (table->key == key)
			return table;
	}
	return NULL;
}

static void free_table(struct verbs_key_table *table)
{
	hm_list_del(&table->link);
	hm_list_del(&table->asked);
	free(table->part);
	free(table);
}

/* Room for another table: true, if need be in place of the one that was not used for longest. */
static bool make_room(struct verbs_peer *peer)
{
	struct verbs_key_table *oldest = NULL;
	size_t count = 0;

	hm_list_for_each(link, &peer->keys)
	{
		struct verbs_key_table *table = hm_list_entry(link, struct verbs_key_table, link);

		count++;
		if (!oldest && table->state != ASKED)
			oldest = table;
	}
	if (count < MAX_TABLES)
		return true;
	if (oldest)
		free_table(oldest);
	return oldest;
}

static void ask(struct verbs_ep *ep, struct verbs_key_table *table)
{
	const struct verbs_frame query = { .type = VERBS_FRAME_KEY_QUERY,
					   .id = table->id,
					   .total = table->key,
					   .data = table->count };

	/* sending may end a connection, and with it, where it succeeds, the table */
	table->unsent = false;
	if (verbs_control_send(ep, table->peer->handle, &query, NULL) != 0)
		table->unsent = true;
}

/* A question, or the next of several: the peer has its time again. */
static void ask_anew(struct verbs_ep *ep, struct verbs_key_table *table)
{
	table->deadline = verbs_now_ms() + verbs_retry_ms();
	hm_list_del(&table->asked);
	hm_list_add_tail(&ep->key_queries, &table->asked);
	ask(ep, table);
}

static struct verbs_key_table *make_table(struct verbs_ep *ep, struct verbs_peer *peer,
					  uint64_t key)
{
	struct verbs_key_table *table = calloc(1, sizeof(*table));

	if (!table) {
		HM_WARN(FI_LOG_EP_DATA, "no memory for the parts of key 0x%" PRIx64, key);
		return NULL;
	}
	table->peer = peer;
	table->key = key;
	table->id = ++ep->next_id;
	table->state = ASKED;
	hm_list_init(&table->asked);
	hm_list_add_tail(&peer->keys, &table->link);
	ask_anew(ep, table);
	return table;
}

/* The question is answered, in one way or the other. */
static void set_state(struct verbs_key_table *table, enum state state, enum hmreg_error why)
{
	table->state = state;
	table->why = why;
	hm_list_del(&table->asked);
}

/* Operations that wait see what became of the question; a failure is for them alone. */
static void tell(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t key)
{
	struct verbs_key_table *table;

	verbs_peer_pump(ep, peer);
	table = find_table(peer, key);
	if (table && table->state == FAILED)
		free_table(table);
}

/* ---- use ---- */

/* The last part that starts at or before addr, which is inside the region. */
static const struct verbs_wire_part *part_at(const struct verbs_key_table *table, uint64_t addr)
{
	size_t low = 0, high = table->count; /* it is one of [low, high) */

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (table->part[middle].start <= addr)
			low = middle;
		else
			high = middle;
	}
	return &table->part[low];
}

int verbs_keys_find(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t key, uint64_t addr,
		    uint64_t len, uint32_t *rkey, uint64_t *iova, uint64_t *piece)
{
	struct verbs_key_table *table = find_table(peer, key);
	const struct verbs_wire_part *part;
	uint64_t left;

	if (!table) {
		if (!make_room(peer)) /* 64 questions are open: their answers lead back here */
			return 0;
		return make_table(ep, peer, key) ? 0 : -HMREG_TRANSPORT;
	}
	if (table->state == ASKED)
		return 0;
	if (table->state == FAILED) /* for all that wait: tell */
		return -(int)table->why;
	hm_list_del(&table->link);
	hm_list_add_tail(&peer->keys, &table->link);
	/* all of it, before the first byte of an operation moves */
	if (!hm_range_ok(table->len, addr - table->part[0].start, len))
		return -HMREG_OUT_OF_BOUNDS;
	part = part_at(table, addr);
	left = part->len - (addr - part->start);
	*rkey = part->rkey;
	*iova = part->iova + (addr - part->start);
	*piece = left < len ? left : len;
	return 1;
}

/* ---- the owner of a region answers ---- */

/*
 * Parts of the key from answer->first on, as peers address them: segments as their concatenation, which
 * begins at 0, or at the address of the first with FI_MR_VIRT_ADDR.  Returns how many there are in all;
 * 0: no such key.
 */
static size_t copy_parts(struct verbs_domain *vd, const struct verbs_key_answer *answer,
			 struct verbs_wire_part *to, size_t *copied)
{
	size_t total = 0, n = 0;
	uint64_t base;

	pthread_mutex_lock(&vd->composites_lock);
	hm_list_for_each(link, &vd->composites)
	{
		const struct verbs_parts *parts = hm_list_entry(link, struct verbs_parts, link);

		if (parts->key != answer->key)
			continue;
		total = parts->count;
		base = vd->zero_based ? 0 : parts->part[0].addr;
		for (size_t i = answer->first; i < total && n < PAGE_PARTS; i++) {
			const struct verbs_part *part = &parts->part[i];

			to[n++] = (struct verbs_wire_part){ .start = base + part->offset,
							    .len = part->len,
							    .iova = part->iova,
							    .rkey = verbs_part_rkey(part) };
		}
		break;
	}
	pthread_mutex_unlock(&vd->composites_lock);
	*copied = n;
	return total;
}

static int send_answer(struct verbs_ep *ep, const struct verbs_key_answer *answer)
{
	struct verbs_wire_part part[PAGE_PARTS];
	size_t count, total = copy_parts(ep->vd, answer, part, &count);
	const struct verbs_frame frame = {
		.type = VERBS_FRAME_KEY_PARTS,
		.status = count ? 0 : HMREG_KEY_UNKNOWN,
		.length = (uint32_t)(count * sizeof(part[0])),
		.id = answer->id,
		.total = answer->key,
		.data = (uint32_t)answer->first | (uint64_t)total << 32,
	};
	int ret = verbs_control_send(ep, answer->peer->handle, &frame, count ? part : NULL);

	return ret == -FI_ENOMEM ? -FI_EAGAIN : ret;
}

void verbs_keys_query(struct verbs_ep *ep, struct verbs_peer *peer, const struct verbs_frame *frame)
{
	struct verbs_key_answer now = {
		.peer = peer, .key = frame->total, .id = frame->id, .first = frame->data
	};
	struct verbs_key_answer *later;
	size_t waiting = 0;

	hm_list_for_each(link, &ep->key_answers)
		waiting += hm_list_entry(link, struct verbs_key_answer, link)->peer == peer;
	if (!waiting && send_answer(ep, &now) != -FI_EAGAIN)
		return;
	later = waiting < MAX_ANSWERS ? malloc(sizeof(*later)) : NULL;
	if (!later) {
		HM_WARN(FI_LOG_EP_DATA,
			"a question of peer 0x%" PRIx64 " about key 0x%" PRIx64
			" stays without an answer: %s",
			peer->handle, frame->total,
			waiting < MAX_ANSWERS ? "no memory" : "too many wait for a send slot");
		return;
	}
	*later = now;
	hm_list_add_tail(&ep->key_answers, &later->link);
}

/* ---- the answer ---- */

/* Why this page cannot be the next one of the table, or NULL. */
static const char *check_page(const struct verbs_key_table *table, const struct verbs_frame *frame)
{
	uint32_t first = (uint32_t)frame->data, total = (uint32_t)(frame->data >> 32);
	uint32_t count = frame->length / (uint32_t)sizeof(struct verbs_wire_part);

	if (frame->length > VERBS_FRAME || count == 0 ||
	    frame->length % sizeof(struct verbs_wire_part) != 0)
		return "its length is not one of parts";
	if (total > MAX_PARTS)
		return "it has too many parts";
	if (first != table->count || !hm_range_ok(total, first, count) ||
	    (table->count > 0 && total != table->total))
		return "the number of parts changes";
	return NULL;
}

/* Count a part in that begins where the ones before it end.  False: it does not. */
static bool continues(struct verbs_key_table *table, const struct verbs_wire_part *part)
{
	uint64_t first = table->part[0].start;

	if (part->len == 0 || part->len > UINT64_MAX - table->len ||
	    part->start != first + table->len || hm_wraps(first, table->len + part->len) ||
	    hm_wraps(part->iova, part->len))
		return false;
	table->len += part->len;
	return true;
}

/* Take the parts of a page, which has been checked.  Why that does not work, or NULL. */
static const char *take_page(struct verbs_key_table *table, const struct verbs_frame *frame)
{
	uint32_t count = frame->length / (uint32_t)sizeof(struct verbs_wire_part);
	struct verbs_wire_part *part = table->part;

	table->total = (uint32_t)(frame->data >> 32);
	if (count >
	    table->room - table->count) { /* memory follows what has come, not what is claimed */
		uint32_t room = table->count + count > 2 * table->room ? table->count + count
								       : 2 * table->room;

		part = realloc(part, room * sizeof(*part));
		if (!part)
			return "no memory for its parts";
		table->part = part;
		table->room = room;
	}
	part += table->count;
	memcpy(part, frame + 1, frame->length);
	for (uint32_t i = 0; i < count; i++)
		if (!continues(table, &part[i]))
			return "its parts are not one range";
	table->count += count;
	return NULL;
}

void verbs_keys_parts(struct verbs_ep *ep, struct verbs_peer *peer, const struct verbs_frame *frame)
{
	struct verbs_key_table *table = find_table(peer, frame->total);
	const char *wrong = NULL;

	if (!table || table->state != ASKED || table->unsent || table->id != frame->id) {
		HM_INFO(FI_LOG_EP_DATA,
			"peer 0x%" PRIx64 " tells of key 0x%" PRIx64 ", which it was not asked for",
			peer->handle, frame->total);
		return;
	}
	if (frame->status == HMREG_KEY_UNKNOWN) {
		set_state(table, FAILED, HMREG_KEY_UNKNOWN);
		tell(ep, peer, frame->total);
		return;
	}
	wrong = frame->status ? "its status is none" : check_page(table, frame);
	if (!wrong)
		wrong = take_page(table, frame);
	if (wrong) {
		HM_WARN(FI_LOG_EP_DATA,
			"what peer 0x%" PRIx64 " tells of key 0x%" PRIx64 " is of no use: %s",
			peer->handle, frame->total, wrong);
		set_state(table, FAILED, HMREG_TRANSPORT);
	} else if (table->count < table->total) {
		ask_anew(ep, table);
		return;
	} else {
		set_state(table, KNOWN, HMREG_OK);
	}
	tell(ep, peer, frame->total);
}

/* ---- what had to wait ---- */

static void retry_answers(struct verbs_ep *ep)
{
	while (!hm_list_empty(&ep->key_answers)) {
		struct verbs_key_answer *answer =
			hm_list_entry(ep->key_answers.next, struct verbs_key_answer, link);

		hm_list_del(&answer->link); /* sending may lead to verbs_keys_forget */
		if (send_answer(ep, answer) == -FI_EAGAIN) {
			hm_list_add_tail(ep->key_answers.next, &answer->link); /* in front */
			return;
		}
		free(answer);
	}
}

static struct verbs_key_table *first_unsent(struct verbs_ep *ep)
{
	hm_list_for_each(link, &ep->key_queries)
	{
		struct verbs_key_table *table = hm_list_entry(link, struct verbs_key_table, asked);

		if (table->unsent)
			return table;
	}
	return NULL;
}

/* Ask what found no slot, as far as there are some now.  Asking may change the list. */
static void retry_queries(struct verbs_ep *ep)
{
	struct verbs_key_table *table, *before = NULL;

	while ((table = first_unsent(ep)) && table != before) {
		before = table;
		ask(ep, table);
	}
}

void verbs_keys_retry(struct verbs_ep *ep)
{
	uint64_t now;

	retry_answers(ep);
	if (hm_list_empty(&ep->key_queries))
		return;
	retry_queries(ep);
	now = verbs_now_ms();
	/* in the order asked, so the first is the first to be given up; telling may change the list */
	while (!hm_list_empty(&ep->key_queries)) {
		struct verbs_key_table *table =
			hm_list_entry(ep->key_queries.next, struct verbs_key_table, asked);
		struct verbs_peer *peer = table->peer;
		uint64_t key = table->key;

		if (now < table->deadline)
			return;
		HM_WARN(FI_LOG_EP_DATA,
			"peer 0x%" PRIx64 " does not tell within %u ms which parts key 0x%" PRIx64
			" has: can it connect to this endpoint?",
			peer->handle, verbs_retry_ms(), key);
		set_state(table, FAILED, HMREG_PEER_LOST);
		tell(ep, peer, key);
	}
}

static struct verbs_key_table *first_asked(struct verbs_ep *ep, const struct verbs_peer *peer)
{
	hm_list_for_each(link, &ep->key_queries)
	{
		struct verbs_key_table *table = hm_list_entry(link, struct verbs_key_table, asked);

		if (table->peer == peer)
			return table;
	}
	return NULL;
}

void verbs_keys_fail(struct verbs_ep *ep, struct verbs_peer *peer, enum hmreg_error why)
{
	/* what is told may ask anew: no more than there can be now */
	for (int i = 0; i < MAX_TABLES; i++) {
		struct verbs_key_table *table = first_asked(ep, peer);
		uint64_t key;

		if (!table)
			return;
		key = table->key;
		set_state(table, FAILED, why);
		tell(ep, peer, key);
	}
}

void verbs_keys_drop(struct verbs_ep *ep, struct verbs_peer *peer, uint64_t key)
{
	struct verbs_key_table *table = find_table(peer, key);

	(void)ep;
	if (table && table->state == KNOWN)
		free_table(table);
}

void verbs_keys_forget(struct verbs_ep *ep, struct verbs_peer *peer)
{
	hm_list_for_each_safe(link, &peer->keys)
	{
		free_table(hm_list_entry(link, struct verbs_key_table, link));
	}
	hm_list_for_each_safe(link, &ep->key_answers)
	{
		struct verbs_key_answer *answer =
			hm_list_entry(link, struct verbs_key_answer, link);

		if (answer->peer != peer)
			continue;
		hm_list_del(link);
		free(answer);
	}
}
