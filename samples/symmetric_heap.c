/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Symmetric heaps, as SHMEM libraries have them: each processing element (PE) has a heap, all of one layout, and an
 * object has the same offset in each.  Registered once, derived many times:
 *
 *   symmetric_heap [DOMAIN [KIND [PES]]]
 *
 * A heap is made of chunks.  Each is one region, whose key the other PEs are told once, when the chunk is made.
 * Allocations are ranges of it: no registration, no exchange.  What a put or get needs is arithmetic on the offset.
 * Only where rights must differ from the chunk's is there a sub-MR: here objects that others may read and not write,
 * in a chunk whose own key gives nothing.
 *
 * KIND: host, or an accelerator's interface: cuda, rocr, ze, neuron, synapseai.  PEs are endpoints of this program,
 * with a domain each.  Exit status 77: there is no such accelerator.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#include "common.h"

#define SKIPPED	    77
#define MOST_PES    16
#define CHUNK	    ((size_t)1 << 20)
#define MOST	    8	 /* chunks of a heap */
#define GUARDED	    MOST /* one beside it, for what others may not reach by a chunk's key */
#define OBJECTS	    200
#define ALIGN	    64
#define SLOT	    64 /* bytes that one PE puts into an object of another */
#define SHARED	    (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define UNSHARED    (FI_READ | FI_WRITE)
#define CHUNK_OF(o) ((o) / CHUNK)

/* A key of a peer's: where its region begins for this PE's calls. */
struct window {
	struct sample_key shared;
	uint64_t key;
	bool used;
};

struct pe {
	struct sample_end end;
	fi_addr_t peer[MOST_PES];
	char *chunk[MOST + 1];
	struct fid_mr *mr[MOST + 1];
	struct window window[MOST][MOST_PES]; /* into the others' chunks */
	struct fid_mr *readable;	      /* sub-MR of an object in the guarded chunk */
	struct window readable_at[MOST_PES];
};

static struct pe *pes;
static int count = 4;
static size_t chunks;
static size_t used; /* of the heaps: the same on all */
static struct sample_place place;
static struct hmreg_hmem_ops *hmem;

/* ---- memory, whatever it is ---- */

static int allocate(struct pe *pe, char **memory)
{
	void *made = NULL;
	int ret;

	if (place.iface != FI_HMEM_SYSTEM)
		ret = hmem->alloc(&pe->end.fabric->fid, place.iface, place.device,
				  HMREG_HMEM_DEVICE, CHUNK, &made);
	else
		ret = posix_memalign(&made, (size_t)sysconf(_SC_PAGESIZE), CHUNK) ? -FI_ENOMEM : 0;
	if (ret)
		return sample_fail("allocating a chunk", ret);
	*memory = made;
	return 0;
}

static int give_back(struct pe *pe, char *memory)
{
	int ret = 0;

	if (place.iface == FI_HMEM_SYSTEM)
		free(memory);
	else if (memory)
		ret = hmem->free(&pe->end.fabric->fid, place.iface, place.device, HMREG_HMEM_DEVICE,
				 memory);
	return ret ? sample_fail("giving a chunk back", ret) : 0;
}

static int copy(struct pe *pe, void *to, const void *from, size_t len)
{
	int ret;

	if (place.iface == FI_HMEM_SYSTEM) {
		memcpy(to, from, len);
		return 0;
	}
	ret = hmem->copy(&pe->end.fabric->fid, to, from, len);
	return ret ? sample_fail("copying", ret) : 0;
}

/* ---- the heap: what this sample is about ---- */

/* Every other PE is told the key. */
static int tell_all(struct pe *owner, struct fid_mr *mr, const void *first, size_t chunk,
		    bool readable)
{
	struct sample_key shared;
	int ret = sample_share(&owner->end, mr, first, &shared);

	for (int i = 0; i < count && !ret; i++) {
		struct window *w = readable ? &pes[i].readable_at[owner - pes]
					    : &pes[i].window[chunk][owner - pes];

		if (&pes[i] == owner)
			continue;
		w->shared = shared; /* sent, between processes */
		ret = sample_use(&pes[i].end, &w->shared, &w->key);
		w->used = !ret;
	}
	return ret;
}

/* A chunk on each PE: one registration. */
static int make_chunk(size_t chunk, uint64_t access)
{
	int ret = 0;

	for (int i = 0; i < count && !ret; i++) {
		struct pe *pe = &pes[i];

		ret = allocate(pe, &pe->chunk[chunk]);
		if (!ret)
			ret = sample_register_at(&pe->end, &place, pe->chunk[chunk], CHUNK, access,
						 &pe->mr[chunk]);
	}
	return ret;
}

/* One more, and one exchange of keys. */
static int grow(void)
{
	int ret = chunks < MOST ? make_chunk(chunks, SHARED) : -FI_ENOMEM;

	if (ret)
		return sample_fail("the heap does not grow", ret);
	for (int i = 0; i < count && !ret; i++)
		ret = tell_all(&pes[i], pes[i].mr[chunks], pes[i].chunk[chunks], chunks, false);
	chunks += !ret;
	return ret;
}

/* The same for all PEs, so all of them know the offset.  An object does not lie in two chunks. */
static int heap_alloc(size_t len, size_t *offset)
{
	size_t at = (used + ALIGN - 1) / ALIGN * ALIGN;
	int ret = 0;

	if (len == 0 || len > CHUNK)
		return -FI_EINVAL;
	if (len > CHUNK - at % CHUNK)
		at = (CHUNK_OF(at) + 1) * CHUNK;
	while (CHUNK_OF(at) >= chunks && !ret)
		ret = grow();
	if (ret)
		return ret;
	*offset = at;
	used = at + len;
	return 0;
}

static char *local(struct pe *pe, size_t offset)
{
	return pe->chunk[CHUNK_OF(offset)] + offset % CHUNK;
}

/* A transfer between this PE's object and the same or another offset at a peer; where says by which key. */
static ssize_t post(struct pe *pe, bool write, size_t mine, size_t len, int peer,
		    const struct window *where, size_t within)
{
	void *desc = fi_mr_desc(pe->mr[CHUNK_OF(mine)]);
	uint64_t address = where->shared.address + within;

	return write ? fi_write(pe->end.ep, local(pe, mine), len, desc, pe->peer[peer], address,
				where->key, NULL)
		     : fi_read(pe->end.ep, local(pe, mine), len, desc, pe->peer[peer], address,
			       where->key, NULL);
}

static int transfer(struct pe *pe, bool write, size_t mine, size_t theirs, size_t len, int peer)
{
	const struct window *w = &pe->window[CHUNK_OF(theirs)][peer];

	if (theirs > used ||
	    len > used - theirs) /* the NIC would refuse what is outside the chunk */
		return sample_fail("an offset outside the heap", -FI_EINVAL);
	return sample_finish(&pe->end, write ? "put" : "get",
			     post(pe, write, mine, len, peer, w, theirs % CHUNK));
}

/* ---- every pair ---- */

static void pattern(unsigned char *to, int from, int at, size_t object, int what)
{
	for (size_t i = 0; i < SLOT; i++)
		to[i] = (unsigned char)(from * 37 + at * 11 + (int)object * 5 + (int)i + what);
}

/* From a slot of one PE's object to the slot of another's. */
static int move_pair(int from, int at, bool write, size_t object, size_t offset)
{
	int source = write ? from : at, target = write ? at : from;
	size_t out = offset + (size_t)(2 * target) * SLOT;    /* in the source's object */
	size_t in = offset + (size_t)(2 * source + 1) * SLOT; /* in the target's */
	unsigned char want[SLOT], found[SLOT];
	int ret;

	pattern(want, from, at, object, write);
	ret = copy(&pes[source], local(&pes[source], out), want, SLOT);
	if (!ret)
		ret = transfer(&pes[from], write, write ? out : in, write ? in : out, SLOT, at);
	if (!ret)
		ret = copy(&pes[target], found, local(&pes[target], in), SLOT);
	if (!ret && memcmp(found, want, SLOT)) {
		fprintf(stderr, "PE %d, %s PE %d, object %zu: other bytes\n", from,
			write ? "put to" : "get from", at, object);
		ret = -FI_EIO;
	}
	return ret;
}

static int all_pairs(size_t object, size_t offset)
{
	int ret = 0;

	for (int from = 0; from < count && !ret; from++) {
		for (int at = 0; at < count && !ret; at++) {
			if (from == at)
				continue;
			ret = move_pair(from, at, true, object, offset);
			if (!ret)
				ret = move_pair(from, at, false, object, offset);
		}
	}
	return ret;
}

/* Of the PE's domain, all that there are. */
static int regions_are(struct pe *pe, uint64_t want)
{
	struct hmreg_domain_stats stats = { .size = sizeof(stats) };
	struct hmreg_domain_ops *ops;
	int ret = fi_open_ops(&pe->end.domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL);

	if (!ret)
		ret = ops->stats(&pe->end.domain->fid, &stats);
	if (ret)
		return sample_fail("figures of the domain", ret);
	if (stats.regions == want)
		return 0;
	fprintf(stderr, "%llu regions, not %llu\n", (unsigned long long)stats.regions,
		(unsigned long long)want);
	return -FI_EOTHER;
}

/* -FI_EAVAIL: the NIC has refused it. */
static int attempt(struct pe *pe, bool write, int peer, const struct window *w, size_t within)
{
	struct fi_cq_err_entry error;
	ssize_t ret = post(pe, write, 0, SLOT, peer, w, within);

	if (!ret)
		ret = sample_wait(&pe->end, &error);
	return (int)ret;
}

static int derive(void)
{
	size_t offset = 0;
	int ret = 0;

	for (size_t object = 0; object < OBJECTS && !ret; object++) {
		size_t len = (size_t)(2 * count) * SLOT + object * 97;

		ret = heap_alloc(len, &offset);
		if (!ret)
			ret = all_pairs(object, offset);
	}
	for (int i = 0; i < count && !ret; i++)
		ret = regions_are(&pes[i], chunks);
	if (!ret && chunks < 2) {
		fputs("the heap has not grown\n", stderr);
		ret = -FI_EOTHER;
	}
	if (!ret)
		printf("%d objects of all PEs in %zu chunks: %zu registrations of each, and %zu "
		       "keys told to each other PE\n",
		       OBJECTS, chunks, chunks, chunks);
	return ret;
}

/* One PE and the next one's object. */
static int try_rights(struct pe *pe, int peer)
{
	const struct window *w = &pe->readable_at[peer];
	unsigned char want[SLOT], found[SLOT];
	int ret = attempt(pe, false, peer, w, 0);

	pattern(want, peer, peer, GUARDED, 0);
	if (!ret)
		ret = copy(pe, found, local(pe, 0), SLOT);
	if (ret || memcmp(found, want, SLOT))
		return sample_fail("reading what may be read", ret ? ret : -FI_EIO);
	ret = attempt(pe, true, peer, w, 0);
	if (ret != -FI_EAVAIL)
		return sample_fail("writing what may be read alone", ret ? ret : -FI_EOTHER);
	ret = attempt(pe, false, peer, w, SLOT);
	if (ret != -FI_EAVAIL)
		return sample_fail("reading beyond it", ret ? ret : -FI_EOTHER);
	return 0;
}

/* Objects that others may read alone: in a chunk that gives them nothing, a sub-MR for what they may. */
static int rights(void)
{
	unsigned char bytes[SLOT];
	int ret = make_chunk(GUARDED, UNSHARED);

	for (int i = 0; i < count && !ret; i++) {
		struct pe *pe = &pes[i];
		char *object = pe->chunk[GUARDED] + SLOT;

		pattern(bytes, i, i, GUARDED, 0);
		ret = copy(pe, object, bytes, SLOT);
		if (!ret)
			ret = sample_register_part(&pe->end, pe->mr[GUARDED], object, SLOT,
						   FI_REMOTE_READ, &pe->readable);
		if (!ret)
			ret = tell_all(pe, pe->readable, object, GUARDED, true);
	}
	for (int i = 0; i < count && !ret; i++)
		ret = try_rights(&pes[i], (i + 1) % count);
	if (!ret)
		puts("read-only objects: read, and not written, nor read beyond their end");
	return ret;
}

/* ---- figures ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* What it would take to register each object by itself, or to give each a sub-MR. */
static int compare_ways(void)
{
	struct pe *pe = &pes[0];
	struct fid_mr *mr;
	double start = now(), anew, part;
	int ret = 0;

	for (size_t i = 0; i < OBJECTS && !ret; i++) {
		ret = sample_register_at(&pe->end, &place, pe->chunk[1] + i * 4096, 4096, SHARED,
					 &mr);
		if (!ret)
			ret = fi_close(&mr->fid);
	}
	anew = (now() - start) / OBJECTS;
	start = now();
	for (size_t i = 0; i < OBJECTS && !ret; i++) {
		ret = sample_register_part(&pe->end, pe->mr[1], pe->chunk[1] + i * 4096, 4096,
					   SHARED, &mr);
		if (!ret)
			ret = fi_close(&mr->fid);
	}
	part = (now() - start) / OBJECTS;
	if (!ret)
		printf("an object of 4 KiB takes no registration; by itself it would take %.0f ns, "
		       "as a sub-MR %.0f ns\n",
		       anew, part);
	return ret;
}

/* ---- the whole ---- */

/* The first device of the interface of this name. */
static int find_device(const char *kind)
{
	struct hmreg_hmem_iface iface = { .size = sizeof(iface) };
	struct hmreg_hmem_device device = { .size = sizeof(device) };
	struct fid *fabric = &pes[0].end.fabric->fid;
	int ret = fi_open_ops(fabric, HMREG_HMEM_OPS, 0, (void **)&hmem, NULL);

	if (ret)
		return sample_fail("fi_open_ops of " HMREG_HMEM_OPS, ret);
	for (int i = FI_HMEM_CUDA; i <= FI_HMEM_SYNAPSEAI; i++) {
		if (hmem->iface(fabric, (enum fi_hmem_iface)i, &iface) || strcmp(kind, iface.name))
			continue;
		if (!iface.devices || hmem->device(fabric, (enum fi_hmem_iface)i, 0, &device)) {
			printf("skipped: %s: %s\n", kind, iface.reason);
			return SKIPPED;
		}
		place = (struct sample_place){ (enum fi_hmem_iface)i, device.id };
		return 0;
	}
	fprintf(stderr, "\"%s\" is neither host nor an accelerator's interface\n", kind);
	return -FI_EINVAL;
}

static int open_pe(struct pe *pe, const char *domain, uint64_t caps)
{
	int ret = sample_open_named(&pe->end, domain, caps, 0);

	if (!ret) {
		ret = fi_enable(pe->end.ep);
		if (ret)
			sample_fail("fi_enable", ret);
	}
	return ret;
}

/* Each knows the others' addresses. */
static int meet(struct pe *pe)
{
	unsigned char name[256];
	int ret = 0;

	for (int i = 0; i < count && !ret; i++) {
		size_t len = sizeof(name);

		if (&pes[i] == pe)
			continue;
		ret = fi_getname(&pes[i].end.ep->fid, name, &len);
		ret = ret ? sample_fail("fi_getname", ret)
			  : sample_enter(&pe->end, name, &pe->peer[i]);
	}
	return ret;
}

static size_t open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t files = 0;

	while (dir && readdir(dir))
		files++;
	if (dir)
		closedir(dir);
	return files;
}

/* Opens what drivers and libraries open once and keep, and finds the device; all else is closed again. */
static int warm_up(const char *domain, const char *kind, uint64_t caps)
{
	int ret = open_pe(&pes[0], domain, caps), failed;

	if (!ret && caps & FI_HMEM)
		ret = find_device(kind);
	failed = sample_close(&pes[0].end);
	return ret ? ret : failed;
}

static int run(const char *domain, const char *kind, uint64_t caps)
{
	int ret = 0;

	for (int i = 0; i < count && !ret; i++)
		ret = open_pe(&pes[i], domain, caps);
	for (int i = 0; i < count && !ret; i++)
		ret = meet(&pes[i]);
	if (ret)
		return ret;
	printf("NIC domain %s, %d PEs, memory: %s\n", pes[0].end.info->domain_attr->name, count,
	       kind);
	ret = derive();
	if (!ret)
		ret = compare_ways();
	return ret ? ret : rights();
}

static int close_windows(struct pe *pe, int peer)
{
	int ret = 0, failed;

	for (size_t c = 0; c < MOST; c++) {
		struct window *w = &pe->window[c][peer];

		failed = w->used ? sample_unuse(&pe->end, &w->shared, w->key) : 0;
		ret = ret ? ret : failed;
	}
	failed = pe->readable_at[peer].used ? sample_unuse(&pe->end, &pe->readable_at[peer].shared,
							   pe->readable_at[peer].key)
					    : 0;
	return ret ? ret : failed;
}

/* Sub-MRs before their bases, regions before their memory; the first failure counts. */
static int close_pe(struct pe *pe)
{
	int ret = 0, failed;

	for (int i = 0; i < count; i++) {
		failed = close_windows(pe, i);
		ret = ret ? ret : failed;
	}
	failed = pe->readable ? fi_close(&pe->readable->fid) : 0;
	ret = ret ? ret : failed;
	for (size_t c = 0; c <= GUARDED; c++) {
		failed = pe->mr[c] ? fi_close(&pe->mr[c]->fid) : 0;
		ret = ret ? ret : failed;
		failed = pe->chunk[c] ? give_back(pe, pe->chunk[c]) : 0;
		ret = ret ? ret : failed;
	}
	failed = pe->end.domain ? regions_are(pe, 0) : 0;
	ret = ret ? ret : failed;
	failed = sample_close(&pe->end);
	return ret ? ret : failed;
}

int main(int argc, char **argv)
{
	const char *domain = argc > 1 ? argv[1] : NULL, *kind = argc > 2 ? argv[2] : "host";
	uint64_t caps = FI_RMA | (strcmp(kind, "host") ? FI_HMEM : 0);
	size_t files;
	int ret, failed;

	if (argc > 3)
		count = atoi(argv[3]);
	if (argc > 4 || count < 2 || count > MOST_PES) {
		fprintf(stderr, "usage: %s [DOMAIN [KIND [PES]]], 2 to %d PEs\n", argv[0],
			MOST_PES);
		return 2;
	}
	pes = calloc((size_t)count, sizeof(*pes));
	if (!pes)
		return EXIT_FAILURE;
	ret = warm_up(domain, kind, caps);
	files = open_files();
	if (!ret)
		ret = run(domain, kind, caps);
	for (int i = 0; i < count; i++) {
		failed = close_pe(&pes[i]);
		ret = ret ? ret : failed;
	}
	free(pes);
	if (!ret && open_files() != files) {
		fprintf(stderr, "%zu files are open, not %zu\n", open_files(), files);
		ret = -FI_EOTHER;
	}
	if (ret == SKIPPED)
		return SKIPPED;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
