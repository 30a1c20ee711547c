/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames out of the input, as they come from three peers, and receives, cancels and restarts between
 * them.  Peer 0 sends anything; 1 and 2 send proper messages, which must arrive whole and in order
 * whatever 0 does.  Composite keys: peer 0 answers anything.
 */
#include "tests/fuzz/input.h"
#include "tests/unit/verbs_end.h"

#define STEPS	 400 /* of one input, at most */
#define BUFFERS	 32
#define ROOM	 9000
#define GUARD	 16 /* bytes behind each buffer */
#define DEFENDED 0x5a

/* A proper sender's message on its way, and what the receiver saw of it last. */
struct sender {
	uint64_t seed;
	size_t total, at;
	bool busy;
	uint64_t seen;
};

static struct end end;
static struct sender sender[END_PEERS];
static struct {
	char mem[ROOM + GUARD];
	size_t room;
	bool used;
} buffer[BUFFERS];
static size_t completions, accepted;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	setenv("HMREG_VERBS_MAX_UNEXPECTED", "40000", 1);
	return 0;
}

/* ---- frames ---- */

static void honest_frame(struct input *in)
{
	unsigned peer = 1 + (unsigned)take_below(in, 2);
	struct sender *s = &sender[peer];
	unsigned flags = VERBS_FRAME_DATA | (take_byte(in) & VERBS_FRAME_WANTS_ANSWER);
	size_t len;

	if (!s->busy) {
		s->seed++;
		s->total = take_byte(in) < 128 ? take_byte(in) : take_raw(in, 2) % 20000;
		s->at = 0;
	}
	len = s->total - s->at;
	if (len > 0)
		len = 1 + take_raw(in, 2) % (len < VERBS_FRAME ? len : VERBS_FRAME);
	if (!end_part(&end, peer, s->seed, s->total, s->at, len, flags))
		return; /* no receive buffer: it comes later */
	s->at += len;
	s->busy = s->at < s->total;
}

static void hostile_frame(struct input *in)
{
	static char payload[VERBS_FRAME];
	struct verbs_frame frame = { .type = take_byte(in), .flags = take_byte(in) };

	if (frame.type >= 16)
		frame.type = 1 + frame.type % 2;
	frame.length = (uint32_t)take_number(in);
	frame.total = take_byte(in) < 128 ? frame.length + take_byte(in) : take_number(in);
	frame.id = take_byte(in);
	frame.data = take_number(in);
	end_arrive(&end, 0, &frame, payload);
}

static void written(struct input *in)
{
	const struct verbs_frame none = { .type = 0 };
	unsigned peer = (unsigned)take_below(in, END_PEERS);
	struct verbs_rx *rx = end_frame(&end, &none, NULL);

	if (!rx)
		return;
	accepted++;
	pthread_mutex_lock(&end.ep.lock);
	verbs_msg_write_data(&end.ep, &end.peer[peer], rx, take_byte(in), take_byte(in));
	pthread_mutex_unlock(&end.ep.lock);
}

static void restart(struct input *in)
{
	unsigned peer = (unsigned)take_below(in, END_PEERS);

	end_reset(&end, peer);
	sender[peer].busy = false;
}

/* ---- receives ---- */

static void post(struct input *in)
{
	size_t i = take_below(in, BUFFERS), room = take_raw(in, 2) % (ROOM + 1);
	struct iovec iov[2] = { { buffer[i].mem, room / 3 },
				{ buffer[i].mem + room / 3, room - room / 3 } };
	uint8_t from = take_byte(in);
	const struct nic_recv recv = { .iov = iov,
				       .count = 2,
				       .src_peer = from < 128 ? 0 : 100u + from % END_PEERS,
				       .context = &buffer[i] };
	ssize_t ret;

	if (buffer[i].used)
		return;
	memset(buffer[i].mem, DEFENDED, sizeof(buffer[i].mem));
	buffer[i].room = room;
	buffer[i].used = true;
	ret = verbs_post_recv(&end.ep.ep, &recv);
	PROMISE(ret == 0 || ret == -FI_EAGAIN);
	if (ret == 0)
		accepted++;
	else
		buffer[i].used = false;
}

static void cancel(struct input *in)
{
	size_t i = take_below(in, BUFFERS);
	ssize_t ret = verbs_cancel(&end.ep.ep, &buffer[i]);

	PROMISE(ret == 0 || ret == -FI_ENOENT || ret == -FI_EAGAIN);
	PROMISE(ret == -FI_ENOENT || buffer[i].used);
}

/* A message of a proper sender: the one after that seen last, if it was not lost in a restart. */
static void check_honest(const struct nic_comp *comp, const char *mem)
{
	for (unsigned peer = 1; peer < END_PEERS; peer++) {
		if (comp->src_addr != end.addr[peer])
			continue;
		PROMISE(comp->data > sender[peer].seen && comp->data <= sender[peer].seed);
		sender[peer].seen = comp->data;
		for (size_t i = 0; i < comp->len && comp->err != FI_ECONNABORTED; i++)
			PROMISE(mem[i] == end_byte(comp->data, i));
	}
}

static void complete_one(struct input *in)
{
	struct nic_comp comp;
	size_t i;

	(void)in;
	if (!end_completion(&end, &comp))
		return;
	completions++;
	if (!comp.op_context) {
		PROMISE(comp.flags & FI_REMOTE_WRITE);
		return;
	}
	i = (size_t)((char *)comp.op_context - (char *)buffer) / sizeof(buffer[0]);
	PROMISE(i < BUFFERS && buffer[i].used);
	PROMISE(comp.len <= buffer[i].room);
	PROMISE(comp.err || comp.prov_errno == 0);
	for (size_t k = buffer[i].room; k < sizeof(buffer[i].mem); k++)
		PROMISE(buffer[i].mem[k] == DEFENDED);
	if (comp.err != FI_ECANCELED)
		check_honest(&comp, buffer[i].mem);
	buffer[i].used = false;
}

static void retry(struct input *in)
{
	end.refuse = take_byte(in) < 64 ? -FI_EAGAIN : 0;
	end_retry(&end);
}

/* ---- keys ---- */

static uint64_t take_key(struct input *in)
{
	return VERBS_KEY_COMPOSITE | take_below(in, 100);
}

static void find(struct input *in)
{
	uint64_t key = take_key(in), len = take_number(in), iova, piece = 0;
	uint32_t rkey;
	int ret;

	pthread_mutex_lock(&end.ep.lock);
	ret = verbs_keys_find(&end.ep, &end.peer[0], key, take_number(in), len, &rkey, &iova,
			      &piece);
	pthread_mutex_unlock(&end.ep.lock);
	PROMISE(ret <= 1 && ret > -(int)HMREG_ERROR_LAST);
	PROMISE(ret != 1 || (piece <= len && (piece > 0 || len == 0)));
}

/* Most often an answer to the last question, in parts that most often fit together. */
static void parts(struct input *in)
{
	const struct end_sent *asked = &end.sent[(end.sent_count - 1) % END_SENT];
	struct verbs_wire_part part[VERBS_FRAME / sizeof(struct verbs_wire_part)];
	uint32_t count = 1 + (uint32_t)take_below(in, 4), total = count + take_byte(in) % 3;
	struct verbs_rx *rx;
	struct verbs_frame frame = { .type = VERBS_FRAME_KEY_PARTS };
	uint64_t at = take_number(in);

	for (uint32_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		part[i] = (struct verbs_wire_part){ at, take_number(in), take_number(in), i, 0 };
		at += take_byte(in) < 250 ? part[i].len : 1;
	}
	frame.id = take_byte(in) < 230 && end.sent_count ? asked->frame.id : take_byte(in);
	frame.total = take_byte(in) < 230 && end.sent_count ? asked->frame.total : take_key(in);
	frame.data = (end.sent_count ? (uint32_t)asked->frame.data : 0) | (uint64_t)total << 32;
	frame.length = count * (uint32_t)sizeof(part[0]);
	if (take_byte(in) >= 230)
		frame.data = take_number(in);
	if (take_byte(in) >= 230)
		frame.length = (uint32_t)take_raw(in, 2) % (VERBS_FRAME + 1);
	if (take_byte(in) >= 230)
		frame.status = take_byte(in);
	rx = end_frame(&end, &frame, part);
	if (!rx)
		return;
	pthread_mutex_lock(&end.ep.lock);
	verbs_keys_parts(&end.ep, &end.peer[0], rx->frame);
	__wrap_verbs_rx_repost(&end.ep, rx);
	pthread_mutex_unlock(&end.ep.lock);
}

static void query(struct input *in)
{
	const struct verbs_frame frame = { .type = VERBS_FRAME_KEY_QUERY,
					   .id = take_byte(in),
					   .total = take_key(in),
					   .data = take_number(in) };

	pthread_mutex_lock(&end.ep.lock);
	verbs_keys_query(&end.ep, &end.peer[0], &frame);
	pthread_mutex_unlock(&end.ep.lock);
}

/* ---- one input ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const steps[])(struct input *) = {
		honest_frame,  honest_frame, honest_frame, honest_frame, hostile_frame,
		hostile_frame, post,	     post,	   post,	 complete_one,
		complete_one,  complete_one, cancel,	   written,	 retry,
		restart,       find,	     parts,	   query,
	};
	struct input in = { data, size };
	size_t held = 0;

	memset(sender, 0, sizeof(sender));
	for (size_t i = 0; i < BUFFERS; i++)
		buffer[i].used = false;
	completions = accepted = 0;
	PROMISE(end_open(&end, 8) == 0);
	for (unsigned i = 0; i < STEPS && in.left; i++) {
		steps[take_below(&in, sizeof(steps) / sizeof(steps[0]))](&in);
		PROMISE(completions <= accepted);
	}
	for (unsigned i = 0; i < END_PEERS; i++)
		held += end.peer[i].held;
	PROMISE(held + end.posted_count <= END_POOL);
	PROMISE(end_close(&end) == 0);
	return 0;
}
