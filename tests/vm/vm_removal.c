/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device is taken away while regions live and data is on its way.  To be run as root, on a device
 * that nobody needs afterwards.  HMREG_TEST_DOMAIN names the device.
 */
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "region.h"

#define LENGTH	((size_t)64 * 1024)
#define WARM_UP 50

extern char **environ;

/* Begins to remove the device; it is gone when the process, which is returned, has ended. */
static pid_t remove_device(const char *name)
{
	char *argv[] = { "rdma", "link", "delete", (char *)(uintptr_t)name, NULL };
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/usr/bin/rdma", NULL, NULL, argv, environ), 0);
	return pid;
}

static void wait_removed(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* The library has said what happened: at least one line, and one for each domain at most. */
static void expect_lines(size_t most)
{
	const char *text = conf_log_text();
	size_t lines = 0;

	for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
		lines++;
	if (lines < 1 || lines > most)
		fail_msg("expected 1 to %zu lines, got: %s", most, text);
	conf_log_expect((unsigned int)lines, NULL, "device removal", __FILE__, __LINE__);
}

static void wait_revoked(const struct conf_region *region)
{
	time_t start = now();

	while (!(vm_region_state(region, NULL) & HMREG_REGION_REVOKED)) {
		assert_true(now() - start < CONF_TIMEOUT_S);
		usleep(1000);
	}
}

/* Registration on a domain whose device is gone. */
static void refuse_new_region(struct conf_end *end)
{
	static uint8_t mem[4096];
	struct fid_mr *untouched = (struct fid_mr *)0x10, *mr = untouched;

	assert_refused(fi_mr_reg(end->domain, mem, sizeof(mem), CONF_ALL, 0, end->next_key++, 0,
				 &mr, NULL),
		       -FI_ENODEV);
	assert_ptr_equal(mr, untouched);
}

/* Operations that were accepted, and what became of them. */
struct traffic {
	struct conf_link link;
	struct conf_region *target[2];
	size_t accepted, done, failed;
	int refused; /* the code of the first one that was not accepted, other than -FI_EAGAIN */
};

static void collect(struct traffic *t)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;
	ssize_t ret = fi_cq_read(t->link.a->tx, &entry, 1);

	if (ret == 1) {
		t->done++;
	} else if (ret == -FI_EAVAIL) {
		assert_int_equal(fi_cq_readerr(t->link.a->tx, &error, 0), 1);
		assert_int_not_equal(error.err, 0);
		t->failed++;
	} else {
		assert_int_equal(ret, -FI_EAGAIN);
	}
}

static void send_more(struct traffic *t)
{
	const struct conf_region *target = t->target[t->accepted % 2];
	ssize_t ret = fi_write(t->link.a->ep, t->link.src, t->link.len, t->link.local->desc,
			       t->link.to, target->addr, fi_mr_key(target->mr), t);

	if (ret == 0)
		t->accepted++;
	else if (ret != -FI_EAGAIN)
		t->refused = (int)ret;
}

static void fn_38_under_traffic(struct conf *c)
{
	static struct traffic traffic;
	struct traffic *t = &traffic;
	struct memory memory;
	uint64_t key;
	time_t start;
	pid_t pid = 0;

	conf_link(c, &(struct conf_opts){ .caps = VM_CAPS }, LENGTH, &t->link);
	memory_make(&memory, MEMORY_UDMABUF, LENGTH);
	t->target[0] = t->link.remote;
	t->target[1] = vm_reg_dmabuf(t->link.b, &memory, 0, LENGTH, memory.map, CONF_ALL);
	key = fi_mr_key(t->target[1]->mr);

	conf_log_mark(__FILE__, __LINE__);
	for (start = now(); !t->failed && !t->refused; collect(t)) {
		if (!pid && t->done >= WARM_UP)
			pid = remove_device(c->profile->name);
		assert_true(now() - start < CONF_TIMEOUT_S);
		send_more(t);
	}
	for (start = now(); t->done + t->failed < t->accepted; collect(t))
		assert_true(now() - start < CONF_TIMEOUT_S);
	print_message("%zu operations accepted: %zu done, %zu failed; then %d\n", t->accepted,
		      t->done, t->failed, t->refused);
	wait_removed(pid);
	conf_quiet(t->link.a->tx);

	for (size_t i = 0; i < c->regions; i++)
		wait_revoked(&c->region[i]);
	expect_lines(2);
	assert_true(fi_mr_key(t->target[1]->mr) == key);
	refuse_new_region(t->link.a);
	memory_free(&memory);
	/* the harness closes everything, which has to succeed */
}

/* Nobody uses the domain: its regions are revoked nevertheless. */
static void fn_38_idle(struct conf *c)
{
	struct conf_end *end = conf_open(c, &(struct conf_opts){ .caps = VM_CAPS, .no_ep = true });
	uint8_t *host = conf_alloc(c, LENGTH);
	struct conf_region *region[2];
	struct memory memory;

	memory_make(&memory, MEMORY_HEAP, LENGTH);
	region[0] = conf_reg(end, host, LENGTH, CONF_ALL);
	region[1] = vm_reg_dmabuf(end, &memory, 0, LENGTH, memory.map, CONF_ALL);
	memory_close_fd(&memory);
	conf_log_mark(__FILE__, __LINE__);
	wait_removed(remove_device(c->profile->name));
	wait_revoked(region[0]);
	wait_revoked(region[1]);
	expect_lines(1);
	refuse_new_region(end);
	memory_free(&memory);
}

int main(int argc, char **argv)
{
	static const struct conf_case cases[] = {
		CONF(fn_38_under_traffic),
		CONF(fn_38_idle),
	};

	/* one case a process: the device is needed anew, and a process looks for devices once */
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(cases[i].name, argv[1]) == 0)
			return conf_main(1, argv, &cases[i], 1);
	fprintf(stderr, "usage: vm_removal CASE\n");
	return 2;
}
