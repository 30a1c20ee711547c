/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions of one buffer that share nothing but the buffer: in several domains, and across a fork. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/harness.h"
#include "tests/threads.h"

#define LEN 4096

/* The link's buffer once more, through a region of this end. */
static struct conf_link by_way_of(const struct conf_link *l, struct conf_end *end,
				  struct conf_region *region)
{
	struct conf_link other = *l;

	other.b = end;
	other.to = conf_addr(l->a, end);
	other.remote = region;
	other.key = conf_key(l->a, region);
	return other;
}

/* Of three domains that register the same buffer, on two devices where there are two. */
static void reg_04_domains_are_independent(struct conf *c)
{
	struct conf_end *first, *second;
	struct conf_link l, others[2];

	conf_link(c, NULL, LEN, &l);
	conf_pair(c, NULL, &first, &second);
	others[0] = by_way_of(&l, first, conf_reg(first, l.dst, LEN, CONF_ALL));
	others[1] = by_way_of(&l, second, conf_reg(second, l.dst, LEN, CONF_ALL));
	conf_works(&l);
	conf_works(&others[0]);
	conf_works(&others[1]);
	conf_close_region(others[0].remote);
	conf_works(&l);
	conf_works(&others[1]);
	conf_close_region(l.remote);
	conf_works(&others[1]);
	conf_check_stats(first, 0, 0, 0);
	conf_check_stats(second, 1, LEN, 0);
}

/* What one domain grants, the other does not for that. */
static void reg_04_domains_have_their_own_rights(struct conf *c)
{
	struct conf_end *reader, *unused;
	struct conf_link l, reads;

	conf_link(c, NULL, LEN, &l);
	conf_pair(c, NULL, &unused, &reader);
	reads = by_way_of(&l, reader, conf_reg(reader, l.dst, LEN, FI_REMOTE_READ));
	conf_put(&l, 0, LEN);
	memset(l.src, 0, LEN);
	conf_get(&reads, 0, LEN);
	assert_memory_equal(l.src, l.dst, LEN);
	conf_fill(c, l.src, LEN);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, reads.to, reads.remote->addr,
			   reads.key, c));
	conf_failed(l.a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
	conf_works(&l);
}

/* ---- two processes ---- */

/* Two processes that take turns, each waiting for the other's word. */
struct turns {
	int hear, say;
};

static void turn_say(const struct turns *t)
{
	assert_int_equal(write(t->say, "", 1), 1);
}

static void turn_wait(const struct turns *t)
{
	char word;

	assert_int_equal(read(t->hear, &word, 1), 1);
}

/* A process beside this one, made while nothing is open here; what fails in it ends it. */
static pid_t start_other(void (*run)(struct conf *c, const struct turns *t, uint8_t *mem),
			 struct conf *c, uint8_t *mem, struct turns *t)
{
	int here[2], there[2];
	pid_t pid;

	assert_int_equal(pipe(here), 0);
	assert_int_equal(pipe(there), 0);
	fflush(NULL);
	pid = test_fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(here[0]);
		close(there[1]);
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		signal(SIGABRT, SIG_DFL);
		alarm(120); /* at the latest */
		run(c, &(struct turns){ there[0], here[1] }, mem);
		_exit(0);
	}
	close(here[1]);
	close(there[0]);
	*t = (struct turns){ here[0], there[1] };
	return pid;
}

/* A region of the buffer that both processes have, reached within this one. */
static struct conf_link over_shared(struct conf_link *l, uint8_t *mem, uint64_t access)
{
	struct conf_link other = by_way_of(l, l->b, conf_reg(l->b, mem, LEN, access));

	other.dst = mem;
	return other;
}

/* The other process: at first it may only read, then it has all rights, while the first closes its own. */
static void other_process(struct conf *c, const struct turns *t, uint8_t *mem)
{
	struct conf_link l, reads, all;

	turn_wait(t); /* the first has written by its NIC */
	conf_link(c, NULL, LEN, &l);
	reads = over_shared(&l, mem, FI_REMOTE_READ);
	conf_get(&reads, 0, LEN);
	assert_memory_equal(l.src, mem, LEN);
	assert_ok(fi_write(l.a->ep, l.src, 8, l.local->desc, reads.to, reads.remote->addr,
			   reads.key, c));
	conf_failed(l.a->tx, c, FI_EACCES, HMREG_NO_RIGHT);
	all = over_shared(&l, mem, CONF_ALL);
	conf_fill(c, l.src, LEN);
	conf_put(&all, 0, LEN);
	turn_say(t);
	turn_wait(t); /* the first has closed its region */
	conf_works(&all);
	conf_close_region(reads.remote);
	conf_works(&all);
	conf_close_region(all.remote);
	conf_check_stats(l.b, 1, LEN, 0);
	turn_say(t);
	turn_wait(t); /* the first has registered anew, and works */
}

/*
 * Two processes register one buffer: each has its own region with its own rights, reads what the other's
 * NIC wrote, and works on whatever the other closes.
 */
static void reg_04_processes_are_independent(struct conf *c)
{
	uint8_t *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct conf_link l, mine;
	struct turns t;
	int status;
	pid_t pid;

	assert_true(mem != MAP_FAILED);
	pid = start_other(other_process, c, mem, &t);
	conf_link(c, NULL, LEN, &l);
	mine = over_shared(&l, mem, CONF_ALL);
	conf_put(&mine, 0, LEN);
	assert_memory_equal(mem, l.src, LEN);
	turn_say(&t);
	turn_wait(&t);
	conf_get(&mine, 0, LEN);
	assert_memory_equal(l.src, mem, LEN); /* what the other's NIC wrote */
	conf_close_region(mine.remote);
	turn_say(&t);
	turn_wait(&t); /* the other has closed all of its own */
	mine = over_shared(&l, mem, CONF_ALL);
	conf_works(&mine);
	turn_say(&t);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	conf_works(&mine);
	conf_drop_region(mine.remote);
	close(t.hear);
	close(t.say);
	munmap(mem, LEN);
}

/* A child that writes to all of its memory, says so, and then lives until it is killed. */
static pid_t writing_child(uint8_t *mem, size_t len)
{
	int said[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(said), 0);
	pid = test_fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60); /* at the latest */
		memset(mem, 0xee, len);
		if (write(said[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(said[1]);
	assert_int_equal(read(said[0], &byte, 1), 1);
	close(said[0]);
	return pid;
}

/*
 * Memory of whole pages, so that nothing else lies in them.  The parent writes to it with the child
 * alive: were its pages shared with the child, it would get others than the NIC knows.
 */
static void reg_09_pinned_pages_stay_the_parent_s(struct conf *c)
{
	const size_t len = 16 * (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct conf_link l, forked;
	int status;
	pid_t pid;

	assert_true(mem != MAP_FAILED);
	conf_link(c, NULL, len, &l);
	memset(mem, 0x11, len);
	forked = by_way_of(&l, l.b, conf_reg(l.b, mem, len, CONF_ALL));
	forked.dst = mem;
	conf_works(&forked);
	memset(mem, 0x11, len);
	pid = writing_child(mem, len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(mem[i], 0x11);
	memset(mem, 0x22, len);
	conf_get(&forked, 0, len);
	assert_memory_equal(l.src, mem, len); /* the NIC reads what the parent wrote */
	conf_fill(c, l.src, len);
	conf_put(&forked, 0, len);
	assert_memory_equal(mem, l.src, len); /* and the parent reads what the NIC wrote */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	conf_works(&forked);
	conf_drop_region(forked.remote);
	munmap(mem, len);
}

/* Ends by a signal when it could: valgrind looks for leaks at an exit, and has a status of its own. */
static void close_in_child(void *arg)
{
	struct conf_link *l = arg;

	if (fi_close(&l->remote->mr->fid) == 0)
		kill(getpid(), SIGKILL);
	_exit(1);
}

/* A child that closes what it got from its parent does not close it for the parent. */
static void reg_09_child_that_closes_a_region(struct conf *c)
{
	struct conf_link l;
	int status;

	conf_link(c, NULL, LEN, &l);
	conf_works(&l);
	status = conf_fork(close_in_child, &l);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	conf_works(&l);
}

static const struct conf_case cases[] = {
	CONF(reg_04_domains_are_independent),	 CONF(reg_04_domains_have_their_own_rights),
	CONF(reg_04_processes_are_independent),	 CONF(reg_09_pinned_pages_stay_the_parent_s),
	CONF(reg_09_child_that_closes_a_region),
};

int main(int argc, char **argv)
{
	return conf_main(argc, argv, cases, count_of(cases));
}
