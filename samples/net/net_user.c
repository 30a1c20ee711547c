/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Does what a collective library does with the network plug-in: loads it, connects two instances, registers
 * one large buffer on each side and thousands of slices of it, moves bytes from slice to slice, lets a kernel put,
 * and checks everything.  Then it measures a slice of what is registered against a slice that is registered anew.
 *
 *   net_user PLUG-IN [DOMAIN [KIND [SLICES]]]
 *
 * DOMAIN may be two, as in rxe0+rxe1: one for each side.  KIND is what the buffers are, see memory.h; host if it is not
 * given.  Exit status 77: nothing here makes such memory.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pthread.h>

#include "memory.h"
#include "net.h"

#define SKIPPED 77
#define BUFFER	((size_t)16 << 20)
#define SLICE	((size_t)1 << 20) /* registered; they overlap */
#define MOVED	((size_t)2048)	  /* of each, to its own place */
#define MOST	((BUFFER - SLICE) / MOVED)
#define FLIGHT	16 /* requests at a time */
#define THREADS 4
#define ROUNDS	5
#define TIMEOUT 20 /* s */

struct side {
	void *ctx, *comm;
	struct net_memory memory;
	void *whole;
	void **slices;
};

static const struct net_plugin *plugin;
static const char *kind = "host";
static size_t slices = MOST;
static struct side from, to;
static struct net_device_comm *kernels; /* the sender's endpoint for kernels, or NULL */
static unsigned char *pattern;
static size_t complaints; /* lines of the plug-in's log that were asked for */
static bool expected;

static void take_log(const char *line)
{
	if (expected)
		complaints++;
	else
		fprintf(stderr, "plug-in: %s\n", line);
}

static bool fail(const char *what)
{
	fprintf(stderr, "net_user: %s\n", what);
	return false;
}

/* A call of the plug-in that has to succeed; it has told why it did not. */
#define TRY(call) ((call) == NET_OK || fail(#call))

static void *at(struct side *side, size_t offset)
{
	return (char *)side->memory.addr + offset;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- registration, as the memory asks for it ---- */

static enum net_result reg(struct side *side, size_t offset, size_t size, void **handle)
{
	int type = side->memory.place.iface == FI_HMEM_SYSTEM ? NET_PTR_HOST : NET_PTR_CUDA;

	if (side->memory.fd >= 0)
		return plugin->regMrDmaBuf(side->comm, at(side, offset), size, type, offset,
					   side->memory.fd, handle);
	return plugin->regMr(side->comm, at(side, offset), size, type, handle);
}

struct share {
	struct side *side;
	size_t first;
	bool ok;
};

/* Every THREADSth slice from first on. */
static void *reg_share(void *arg)
{
	struct share *share = arg;

	share->ok = true;
	for (size_t i = share->first; i < slices && share->ok; i += THREADS)
		share->ok = TRY(reg(share->side, i * MOVED, SLICE, &share->side->slices[i]));
	return NULL;
}

static bool reg_slices(struct side *side)
{
	struct share shares[THREADS];
	pthread_t threads[THREADS];
	bool ok = true;

	for (size_t i = 0; i < THREADS; i++) {
		shares[i] = (struct share){ .side = side, .first = i };
		if (pthread_create(&threads[i], NULL, reg_share, &shares[i]))
			abort();
	}
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		ok = ok && shares[i].ok;
	}
	return ok;
}

/* In an order that is nobody's. */
static bool dereg_slices(struct side *side)
{
	size_t step = slices / 2 + 1, i = 0;

	while (slices % 2 == 0 && step % 2 == 0)
		step++;
	for (size_t n = 0; n < slices; n++, i = (i + step) % slices) {
		if (side->slices[i] && !TRY(plugin->deregMr(side->comm, side->slices[i])))
			return false;
		side->slices[i] = NULL;
	}
	for (i = 0; i < slices; i++) { /* where step and slices have a divisor in common */
		if (side->slices[i] && !TRY(plugin->deregMr(side->comm, side->slices[i])))
			return false;
		side->slices[i] = NULL;
	}
	return true;
}

/* So many buffers were registered, and so many registrations are left. */
static bool check_figures(struct side *side, uint64_t registered, uint64_t pinned, uint64_t open)
{
	struct net_figures f;

	if (!TRY(plugin->figures(side->comm, &f)))
		return false;
	if (f.registered == registered && f.pinned == pinned && f.open == open)
		return true;
	fprintf(stderr,
		"net_user: %llu registered, %llu of them left, %llu handles; expected %llu, %llu, "
		"%llu\n",
		(unsigned long long)f.registered, (unsigned long long)f.pinned,
		(unsigned long long)f.open, (unsigned long long)registered,
		(unsigned long long)pinned, (unsigned long long)open);
	return false;
}

/* ---- transfers ---- */

/* One of both sides' requests: is it over? */
static bool poll_request(void **request, bool *over)
{
	size_t size = 0;
	int done = 0;

	*over = true;
	if (!*request)
		return true;
	if (!TRY(plugin->test(*request, &done, &size)))
		return false;
	*over = done;
	if (!done)
		return true;
	*request = NULL;
	return size == MOVED || fail("other than what was sent has come");
}

/* Slices [first, first + count) at a time. */
static bool move(size_t first, size_t count)
{
	void *sends[FLIGHT] = { NULL }, *receives[FLIGHT] = { NULL };
	uint64_t limit = now() + (uint64_t)TIMEOUT * 1000000000;
	bool all = false, over;

	for (size_t k = 0; k < count; k++) {
		size_t i = first + k;

		if (!TRY(plugin->irecv(to.comm, at(&to, i * MOVED), MOVED, (int)k, to.slices[i],
				       &receives[k])) ||
		    !TRY(plugin->isend(from.comm, at(&from, i * MOVED), MOVED, (int)k,
				       from.slices[i], &sends[k])) ||
		    !receives[k] || !sends[k])
			return fail("no room for a request");
	}
	while (!all) {
		all = true;
		for (size_t k = 0; k < count; k++) {
			if (!poll_request(&sends[k], &over))
				return false;
			all = all && over;
			if (!poll_request(&receives[k], &over))
				return false;
			all = all && over;
		}
		if (now() > limit)
			return fail("nothing moves");
		if (!all)
			sched_yield();
	}
	return true;
}

static void fill_pattern(unsigned int seed)
{
	for (size_t i = 0; i < BUFFER; i++)
		pattern[i] = (unsigned char)(i * 7 + i / 251 + seed * 13);
}

/* All slices, and not a byte beyond them. */
static bool move_all(unsigned int seed)
{
	static unsigned char found[MOVED];

	fill_pattern(seed);
	if (net_memory_write(&from.memory, 0, pattern, BUFFER))
		return false;
	memset(pattern + slices * MOVED, 0xee, BUFFER - slices * MOVED);
	if (net_memory_write(&to.memory, slices * MOVED, pattern + slices * MOVED,
			     BUFFER - slices * MOVED))
		return false;
	for (size_t i = 0; i < slices; i += FLIGHT) {
		if (!move(i, slices - i < FLIGHT ? slices - i : FLIGHT))
			return false;
	}
	for (size_t offset = 0; offset < BUFFER; offset += MOVED) {
		if (net_memory_read(&to.memory, offset, found, MOVED))
			return false;
		if (memcmp(found, pattern + offset, MOVED))
			return fail("the buffer holds other bytes than were sent");
	}
	return true;
}

/* What a kernel does with what connect and getDeviceMr gave: here on the processor, which is the context's device. */
static bool put_from_kernel(void)
{
	struct net_device_mr *mine, *theirs;
	void *handle;
	unsigned char sent[64], found[64];
	int ret;

	if (!kernels) {
		puts("no calls for kernels on this NIC");
		return true;
	}
	if (!TRY(plugin->getDeviceMr(from.comm, from.slices[1], &handle)))
		return false;
	mine = handle;
	if (!TRY(plugin->getDeviceMr(to.comm, to.slices[1], &handle)))
		return false;
	theirs = handle;
	if (!theirs->remote_key) {
		puts("no put from a kernel: keys are raw here, and the host maps them");
		return true;
	}
	memset(sent, 0x5a, sizeof(sent));
	if (net_memory_write(&from.memory, MOVED, sent, sizeof(sent)))
		return false;
	ret = fi_xpu_write(&kernels->ep, (void *)mine->address, sizeof(sent), mine->desc, 0,
			   kernels->peer, theirs->remote_address, theirs->remote_key, NULL, 0,
			   FI_XPU_WORK_ITEM);
	if (ret)
		return fail("fi_xpu_write");
	fi_xpu_cntr_wait(&kernels->sent, 1, TIMEOUT * 1000, FI_XPU_WORK_ITEM);
	if (fi_xpu_cntr_read(&kernels->sent, FI_XPU_WORK_ITEM) != 1)
		return fail("the kernel's put has not completed");
	if (net_memory_read(&to.memory, MOVED, found, sizeof(found)))
		return false;
	if (memcmp(found, sent, sizeof(sent)))
		return fail("other bytes than the kernel put");
	puts("a kernel put 64 bytes by the handles of getDeviceMr");
	return true;
}

/* ---- what must be refused ---- */

static bool refused(enum net_result result, enum net_result want, const char *what)
{
	if (result == want)
		return true;
	fprintf(stderr, "net_user: %s: result %d, expected %d\n", what, result, want);
	return false;
}

static bool misuse(void)
{
	bool device = from.memory.place.iface != FI_HMEM_SYSTEM;
	int wrong = device ? NET_PTR_HOST : NET_PTR_CUDA;
	void *handle = NULL, *request;
	static char outside[16];
	size_t before = complaints;
	bool ok;

	expected = true;
	ok = refused(plugin->regMr(from.comm, NULL, 16, NET_PTR_HOST, &handle),
		     NET_INVALID_ARGUMENT, "no memory") &&
	     refused(plugin->regMr(from.comm, outside, 0, NET_PTR_HOST, &handle),
		     NET_INVALID_ARGUMENT, "no length") &&
	     refused(plugin->regMr(from.comm, outside, SIZE_MAX, NET_PTR_HOST, &handle),
		     NET_INVALID_ARGUMENT, "a length beyond all addresses") &&
	     refused(plugin->regMr(from.comm, outside, 16, 3, &handle), NET_INVALID_ARGUMENT,
		     "no type") &&
	     refused(plugin->regMr(from.comm, from.memory.addr, 16, wrong, &handle),
		     NET_INVALID_ARGUMENT, "another type than the memory's") &&
	     refused(plugin->regMrDmaBuf(from.comm, outside, 16, NET_PTR_HOST, 0, -1, &handle),
		     NET_INVALID_ARGUMENT, "no descriptor") &&
	     refused(plugin->isend(from.comm, outside, 16, 0, from.slices[0], &request),
		     NET_INVALID_ARGUMENT, "memory outside the handle") &&
	     refused(plugin->irecv(from.comm, at(&from, 0), 16, 0, from.slices[0], &request),
		     NET_INVALID_ARGUMENT, "a receive on a sender") &&
	     refused(plugin->closeComm(from.comm), NET_INVALID_USAGE, "handles are open") &&
	     refused(plugin->finalize(from.ctx), NET_INVALID_USAGE, "a connection is open");
	expected = false;
	if (ok && handle)
		return fail("a handle of what was refused");
	if (ok && complaints - before < 10)
		return fail("refusals without a line in the log");
	return ok;
}

/* ---- figures ---- */

static bool time_slices(double *each)
{
	uint64_t start = now();
	void *handle;

	for (size_t i = 0; i < slices; i++) {
		if (!TRY(reg(&from, i * MOVED, SLICE, &handle)) ||
		    !TRY(plugin->deregMr(from.comm, handle)))
			return false;
	}
	*each = (double)(now() - start) / (double)slices;
	return true;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Both in turns: with a handle for the whole buffer, and without. */
static bool measure(void)
{
	double inside[ROUNDS], anew[ROUNDS];
	bool ok = true;

	for (int i = 0; i < ROUNDS && ok; i++) {
		ok = TRY(reg(&from, 0, BUFFER, &from.whole)) && time_slices(&inside[i]) &&
		     TRY(plugin->deregMr(from.comm, from.whole)) && time_slices(&anew[i]);
		from.whole = NULL;
	}
	if (!ok)
		return false;
	qsort(inside, ROUNDS, sizeof(inside[0]), compare);
	qsort(anew, ROUNDS, sizeof(anew[0]), compare);
	printf("regMr and deregMr of a slice of 1 MiB: %.0f ns inside a registered buffer, %.0f ns "
	       "anew, %.1f times as long\n",
	       inside[ROUNDS / 2], anew[ROUNDS / 2], anew[ROUNDS / 2] / inside[ROUNDS / 2]);
	return true;
}

/* ---- the whole ---- */

static bool slices_of_both(void)
{
	struct net_figures f;

	if (!TRY(reg(&from, 0, BUFFER, &from.whole)) || !TRY(reg(&to, 0, BUFFER, &to.whole)) ||
	    !reg_slices(&from) || !reg_slices(&to) || !check_figures(&from, 1, 1, slices + 1) ||
	    !check_figures(&to, 1, 1, slices + 1) || !TRY(plugin->figures(from.comm, &f)))
		return false;
	printf("%zu slices of a buffer on each side: %llu registration, %llu sub-MRs, %llu with "
	       "the buffer's key\n",
	       slices, (unsigned long long)f.registered, (unsigned long long)f.derived,
	       (unsigned long long)f.shared);
	return move_all(1) && put_from_kernel() && misuse();
}

/* The buffer's own handle goes first: slices live on, but no new ones are made of what it stood for. */
static bool buffer_first(void)
{
	void *late;
	bool ok = TRY(plugin->deregMr(from.comm, from.whole)) &&
		  TRY(plugin->deregMr(to.comm, to.whole));

	from.whole = to.whole = NULL;
	ok = ok && check_figures(&from, 1, 1, slices) && move_all(2) &&
	     TRY(reg(&from, 0, SLICE, &late)) && check_figures(&from, 2, 2, slices + 1) &&
	     TRY(plugin->deregMr(from.comm, late)) && check_figures(&from, 2, 1, slices);
	return ok && dereg_slices(&from) && dereg_slices(&to) && check_figures(&from, 2, 0, 0) &&
	       check_figures(&to, 1, 0, 0);
}

static bool connect_sides(void)
{
	uint64_t limit = now() + (uint64_t)TIMEOUT * 1000000000;
	struct net_properties props;
	char handle[NET_HANDLE_SIZE];
	void *listener;

	if (!TRY(plugin->getProperties(from.ctx, 0, &props)) ||
	    !TRY(plugin->listen(to.ctx, 0, handle, &listener)))
		return false;
	to.comm = listener;
	printf("NIC domain %s, memory: %s\n", props.name, kind);
	if (!TRY(plugin->connect(from.ctx, 0, handle, &from.comm, &kernels)))
		return false;
	for (to.comm = NULL; !to.comm && now() < limit; sched_yield()) {
		if (!TRY(plugin->accept(listener, &to.comm)))
			break;
	}
	if (to.comm)
		return true;
	to.comm = listener;
	return fail("nobody has connected");
}

static bool close_side(struct side *side)
{
	bool ok = true;

	if (side->slices)
		ok = dereg_slices(side);
	if (side->whole)
		ok = TRY(plugin->deregMr(side->comm, side->whole)) && ok;
	if (side->comm)
		ok = TRY(plugin->closeComm(side->comm)) && ok;
	if (side->ctx)
		ok = TRY(plugin->finalize(side->ctx)) && ok;
	free(side->slices);
	net_memory_close(&side->memory);
	*side = (struct side){ .memory = { .fd = -1 } };
	return ok;
}

static int open_side(struct side *side, const char *domain, struct fid_fabric *fabric)
{
	struct net_config config = { .domain = domain, .slices = 64 };
	int ret;

	side->slices = calloc(slices, sizeof(void *));
	if (!side->slices || !TRY(plugin->init(&side->ctx, &config, take_log)))
		return -FI_EOTHER;
	ret = net_memory_open(fabric, kind, BUFFER, &side->memory);
	return ret;
}

static size_t count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* Twice: what stays open for good, of drivers and libraries, is open after the first. */
static int run(char *domains, struct fid_fabric *fabric)
{
	char *second = domains ? strchr(domains, '+') : NULL;
	size_t fds = 0;
	int ret = 0;
	bool ok;

	if (second)
		*second++ = '\0';
	for (int round = 0; round < 2 && !ret; round++) {
		ret = open_side(&from, domains, fabric);
		if (!ret)
			ret = open_side(&to, second ? second : domains, fabric);
		ok = !ret && connect_sides() &&
		     (round == 0 || (slices_of_both() && buffer_first() && measure()));
		ok = close_side(&from) && close_side(&to) && ok;
		if (!ret && !ok)
			ret = -FI_EOTHER;
		if (!ret && round == 0)
			fds = count_fds();
		else if (!ret && fds != count_fds() && !fail("file descriptors are left open"))
			ret = -FI_EOTHER;
	}
	return ret;
}

static void *load(const char *path)
{
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (object)
		plugin = dlsym(object, NET_PLUGIN_SYMBOL);
	if (!plugin)
		fprintf(stderr, "%s\n", dlerror());
	return object;
}

int main(int argc, char **argv)
{
	char *domains = argc > 2 ? argv[2] : NULL;
	struct fid_fabric *fabric;
	struct fi_info *info;
	void *object;
	int ret;

	if (argc > 3)
		kind = argv[3];
	if (argc > 4)
		slices = strtoul(argv[4], NULL, 10);
	if (argc < 2 || argc > 5 || slices < 2 || slices > MOST) {
		fprintf(stderr, "usage: %s PLUG-IN [DOMAIN [KIND [SLICES]]], 2 to %zu slices\n",
			argv[0], MOST);
		return 2;
	}
	object = load(argv[1]);
	pattern = malloc(BUFFER);
	if (!plugin || !pattern)
		return EXIT_FAILURE;
	ret = sample_find(NULL, FI_RMA | FI_HMEM, &info);
	if (!ret)
		ret = fi_fabric(info->fabric_attr, &fabric, NULL);
	if (ret) {
		sample_fail("finding a NIC", ret);
		return EXIT_FAILURE;
	}
	ret = run(domains, fabric);
	fi_close(&fabric->fid);
	fi_freeinfo(info);
	free(pattern);
	dlclose(object);
	return ret == -FI_ENODEV ? SKIPPED : (ret ? EXIT_FAILURE : EXIT_SUCCESS);
}
