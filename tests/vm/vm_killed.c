/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that are killed while others talk to them, on two devices: what was under way ends with errors,
 * and the address serves the next process that has it.  This program is the other process, too.
 */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "region.h"
#include "tests/conformance/peers.h"

#define OTHER_DEVICE "rxe1"
#define LEN	     ((size_t)64 * 1024) /* of one write */
#define DEPTH	     32			 /* writes under way */
#define WARM_UP	     100
#define MESSAGE	     ((size_t)2 << 20)
#define REPORT	     3 /* the other process's descriptor to tell by */

extern char **environ;

/* What two processes have to know of each other. */
struct card {
	struct sockaddr_storage name;
	size_t name_len;
	uint64_t key, addr;
};

static void name_of(const struct conf_end *end, struct card *card)
{
	memset(card, 0, sizeof(*card));
	card->name_len = sizeof(card->name);
	assert_ok(fi_getname(&end->ep->fid, &card->name, &card->name_len));
}

static fi_addr_t insert(struct conf_end *end, const struct card *card)
{
	fi_addr_t to;

	assert_int_equal(fi_av_insert(end->av, &card->name, 1, &to, 0, NULL), 1);
	return to;
}

/* ---- the other process: told what to know on its standard input ---- */

/* An endpoint at the address that the card has, if it has one. */
static struct conf_end *open_at(struct conf *c, const struct card *card)
{
	struct conf_end *end = conf_open(c, NULL);

	if (card->name_len > 0) {
		conf_close_ep(end);
		reopen(end, &card->name, card->name_len);
	}
	return end;
}

static void read_card(struct card *card)
{
	assert_int_equal(read(STDIN_FILENO, card, sizeof(*card)), sizeof(*card));
}

static void write_card(const struct card *card)
{
	assert_int_equal(write(REPORT, card, sizeof(*card)), sizeof(*card));
}

/* Memory for others to write to, until the process is killed. */
static void target(struct conf *c)
{
	struct conf_region *region;
	struct conf_end *end;
	struct card card;

	read_card(&card);
	end = open_at(c, &card);
	region = conf_reg(end, conf_alloc(c, LEN), LEN, CONF_ALL);
	name_of(end, &card);
	card.key = fi_mr_key(region->mr);
	card.addr = region->addr;
	write_card(&card);
	for (;;)
		pause();
}

/* One long message after another, to the end that the card names. */
static void sender(struct conf *c)
{
	uint8_t *mem = conf_alloc(c, MESSAGE);
	struct conf_region *region;
	struct conf_end *end;
	struct card card;
	fi_addr_t to;

	read_card(&card);
	end = conf_open(c, NULL);
	memset(mem, 0x5a, MESSAGE);
	region = conf_reg(end, mem, MESSAGE, CONF_ALL);
	to = insert(end, &card);
	write_card(&card);
	for (;;) {
		assert_posted(fi_send(end->ep, mem, MESSAGE, region->desc, to, mem));
		conf_done(end->tx, mem);
	}
}

/* ---- the one that watches it ---- */

struct other {
	pid_t pid;
	int from; /* where it reports */
};

static void start(struct other *other, const char *role, const struct card *card)
{
	char *argv[] = { "vm_killed", (char *)(uintptr_t)role, NULL };
	posix_spawn_file_actions_t actions;
	int to[2], from[2];

	assert_int_equal(pipe(to) | pipe(from), 0);
	assert_int_equal(write(to[1], card, sizeof(*card)), sizeof(*card));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, from[1], REPORT);
	posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
	setenv("HMREG_TEST_DOMAIN", OTHER_DEVICE, 1);
	assert_int_equal(posix_spawn(&other->pid, "/proc/self/exe", &actions, NULL, argv, environ),
			 0);
	posix_spawn_file_actions_destroy(&actions);
	close(to[0]);
	close(to[1]);
	close(from[1]);
	other->from = from[0];
}

/* For as long as it takes to start; the card is the one that it has written. */
static void await_ready(const struct other *other, struct card *card)
{
	assert_int_equal(read(other->from, card, sizeof(*card)), sizeof(*card));
}

static void kill_it(struct other *other)
{
	int status;

	assert_int_equal(kill(other->pid, SIGKILL), 0);
	assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
	assert_true(WIFSIGNALED(status));
	close(other->from);
}

static bool is_loss(const struct fi_cq_err_entry *error)
{
	return error->prov_errno == HMREG_PEER_LOST || error->prov_errno == HMREG_PEER_GONE;
}

/* Writes until one fails, under way all the time; the process is killed after some. */
static void write_until_killed(struct conf_end *end, fi_addr_t to, const struct card *card,
			       struct conf_region *local, uint8_t *src, struct other *other)
{
	size_t posted = 0, done = 0, failed = 0;
	bool killed = false;

	for (time_t since = time(NULL); failed == 0 || done + failed < posted;) {
		struct fi_cq_err_entry error = { 0 };
		struct fi_cq_data_entry entry;
		ssize_t ret;

		assert_true(time(NULL) - since < CONF_TIMEOUT_S);
		if (failed == 0 && posted - done < DEPTH)
			posted += fi_write(end->ep, src, LEN, local->desc, to, card->addr,
					   card->key, NULL) == 0;
		ret = fi_cq_read(end->tx, &entry, 1);
		done += ret == 1;
		if (ret == -FI_EAVAIL) {
			assert_int_equal(fi_cq_readerr(end->tx, &error, 0), 1);
			assert_true(is_loss(&error));
			failed++;
		}
		if (!killed && done >= WARM_UP) {
			kill_it(other);
			killed = true;
		}
	}
	print_message("%zu writes: %zu done, %zu failed\n", posted, done, failed);
	assert_true(killed);
	conf_quiet(end->tx);
}

static void nic_rma_to_a_killed_process_ends(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	uint8_t *src = conf_alloc(c, LEN);
	struct conf_region *local = conf_reg(end, src, LEN, CONF_ALL);
	struct card card = { .name_len = 0 };
	fi_addr_t to = FI_ADDR_NOTAVAIL;

	for (int round = 0; round < 3; round++) {
		struct other other;

		start(&other, "target", &card);
		await_ready(&other, &card);
		if (round == 0)
			to = insert(end, &card);
		/* at the same address as before */
		assert_posted(fi_write(end->ep, src, LEN, local->desc, to, card.addr, card.key, c));
		conf_done(end->tx, c);
		write_until_killed(end, to, &card, local, src, &other);
	}
}

static void await_byte(const volatile uint8_t *at, uint8_t value)
{
	for (time_t since = time(NULL); *at != value; usleep(100))
		assert_true(time(NULL) - since < CONF_TIMEOUT_S);
}

/* A receive that has a part of a message ends with its sender, and there is room for the next. */
static void nic_receive_from_a_killed_process_ends(struct conf *c)
{
	struct conf_end *end = conf_open(c, NULL);
	uint8_t *dst = conf_alloc(c, MESSAGE);
	struct conf_region *into = conf_reg(end, dst, MESSAGE, CONF_ALL);
	struct fi_cq_err_entry error;
	struct card card;

	name_of(end, &card);
	for (int round = 0, whole = 0; round < 3;) {
		struct other other;

		/* one whole message, then a part of the next */
		memset(dst, 0, MESSAGE);
		assert_posted(fi_recv(end->ep, dst, MESSAGE, into->desc, FI_ADDR_UNSPEC, c));
		start(&other, "sender", &card);
		await_ready(&other, &card);
		conf_done(end->rx, c);
		assert_int_equal(dst[MESSAGE - 1], 0x5a);
		memset(dst, 0, MESSAGE);
		assert_posted(fi_recv(end->ep, dst, MESSAGE, into->desc, FI_ADDR_UNSPEC, c));
		await_byte(dst, 0x5a);
		kill_it(&other);
		if (drain(end->rx, 1, &error) == 0) {
			/* the whole had come before it was dead: not what is looked for */
			assert_int_equal(dst[MESSAGE - 1], 0x5a);
			assert_true(++whole < 20);
			continue;
		}
		assert_int_equal(error.prov_errno, HMREG_PEER_LOST);
		assert_ptr_equal(error.op_context, c);
		/* what had arrived of the message after that one was not kept */
		conf_quiet(end->rx);
		round++;
	}
}

/* ---- idle peers ---- */

static unsigned long packets(void)
{
	FILE *file = fopen("/sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", "r");
	unsigned long n = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &n), 1);
	fclose(file);
	return n;
}

/* Nothing is said for a while: the library asks whether the peer is there, and leaves its connection alone. */
static void nic_idle_peer_is_left_alone(struct conf *c)
{
	struct vm_resources before, after;
	unsigned long sent;
	struct conf_link l;

	conf_link(c, NULL, 64, &l);
	exchange(&l);
	vm_resources(&before);
	sent = packets();
	for (time_t since = time(NULL); packets() == sent; usleep(10000))
		assert_true(time(NULL) - since < CONF_TIMEOUT_S);
	sleep(1);
	vm_resources(&after);
	vm_assert_same(&after, &before);
	exchange(&l);
	vm_resources(&after);
	vm_assert_same(&after, &before);
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(nic_rma_to_a_killed_process_ends),
		CONF(nic_receive_from_a_killed_process_ends),
		CONF(nic_idle_peer_is_left_alone),
	};
	static const struct conf_case roles[] = { CONF(target), CONF(sender) };

	for (size_t i = 0; argc == 2 && i < sizeof(roles) / sizeof(roles[0]); i++)
		if (strcmp(roles[i].name, argv[1]) == 0)
			return conf_main(1, argv, &roles[i], 1);
	return conf_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
