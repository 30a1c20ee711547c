/* SPDX-License-Identifier: BSD-2-Clause */
/* Scenes of the guide's pictures; see scenes.h.   scenes NAME */
#include "tests/doc/scenes.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

#define BYTES 65536
#define POOL  (1 << 20)

static struct sample_end near, far;

void tell(const char *format, ...)
{
	char line[256];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)len) != len)
		abort();
}

static int open_ends(const char *domain, uint64_t caps, int without)
{
	int ret;

	sample_mr_modes &= ~without;
	ret = sample_open_named(&near, domain, caps, 0);
	if (!ret)
		ret = sample_open_named(&far, domain, caps, 0);
	return ret ? ret : sample_connect(&near, &far);
}

static int close_ends(int ret)
{
	int failed = sample_close(&near);

	ret = ret ? ret : failed;
	failed = sample_close(&far);
	return ret ? ret : failed;
}

/* ---- device memory, by its address alone ---- */

static int register_pointer(void *pointer)
{
	struct fid_mr *mr;
	int ret;

	tell("scene:begin:registration");
	tell("scene:program:fi_mr_reg(pointer, %d bytes)", BYTES);
	ret = fi_mr_reg(near.domain, pointer, BYTES, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL);
	if (ret)
		return sample_fail("fi_mr_reg", ret);
	tell("scene:program<0, a region");
	tell("scene:program:fi_mr_key(region)");
	tell("scene:program<%s", fi_mr_key(mr) == FI_KEY_NOTAVAIL ? "no key" : "the key");
	tell("scene:program:fi_close(region)");
	ret = fi_close(&mr->fid);
	tell("scene:program<%d", ret);
	tell("scene:end");
	return ret;
}

int scene_registration(void)
{
	struct hmreg_hmem_ops *ops;
	void *pointer;
	int ret = open_ends("emu0", FI_RMA | FI_HMEM, FI_MR_HMEM), failed;

	if (!ret)
		ret = fi_open_ops(&near.fabric->fid, HMREG_HMEM_OPS, 0, (void **)&ops, NULL);
	if (!ret)
		ret = ops->alloc(&near.fabric->fid, FI_HMEM_CUDA, 0, HMREG_HMEM_DEVICE, BYTES,
				 &pointer);
	if (!ret) {
		ret = register_pointer(pointer);
		failed = ops->free(&near.fabric->fid, FI_HMEM_CUDA, 0, HMREG_HMEM_DEVICE, pointer);
		ret = ret ? ret : failed;
	}
	return close_ends(ret);
}

/* ---- the cache ---- */

struct inbox {
	struct fid_mr *mr;
	struct sample_key shared;
	uint64_t key;
	uint8_t bytes[BYTES];
};

static int write_it(struct inbox *inbox, const void *from)
{
	return sample_finish(&near, "fi_write",
			     fi_write(near.ep, from, BYTES, NULL, near.peer, inbox->shared.address,
				      inbox->key, NULL));
}

/* What the library's own figures say of the step. */
static int traced_write(struct inbox *inbox, const void *from, struct hmreg_domain_ops *ops)
{
	struct hmreg_cache_stats before = { .size = sizeof(before) }, after = before;
	int ret = ops->cache(&near.domain->fid, &before);

	tell("scene:program:fi_write(buffer), no descriptor");
	ret = ret ? ret : write_it(inbox, from);
	ret = ret ? ret : ops->cache(&near.domain->fid, &after);
	tell("scene:cache:%s", after.all.misses > before.all.misses ? "miss"
			       : after.all.hits > before.all.hits   ? "hit"
								    : "neither");
	tell("scene:program<%d, the completion", ret);
	return ret;
}

static int traced_unmap(void *pages, struct hmreg_domain_ops *ops)
{
	struct hmreg_cache_stats before = { .size = sizeof(before) }, after = before;
	int ret = ops->cache(&near.domain->fid, &before);

	tell("scene:program:munmap(buffer)");
	ret = ret ? ret : munmap(pages, BYTES);
	ret = ret ? ret : ops->cache(&near.domain->fid, &after);
	tell("scene:cache:%s",
	     after.all.invalidations > before.all.invalidations ? "invalidation" : "none");
	tell("scene:program<%d", ret);
	return ret;
}

static void *pages_at(void *at)
{
	void *pages = mmap(at, BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	return pages == MAP_FAILED ? NULL : memset(pages, 1, BYTES);
}

static int cached_writes(struct inbox *inbox, struct hmreg_domain_ops *ops)
{
	uint8_t *other = pages_at(NULL), *buffer = pages_at(NULL);
	int ret = other && buffer ? write_it(inbox, other) : -FI_ENOMEM; /* connects */

	tell("scene:begin:cache");
	ret = ret ? ret : traced_write(inbox, buffer, ops);
	ret = ret ? ret : traced_write(inbox, buffer, ops);
	ret = ret ? ret : traced_unmap(buffer, ops);
	tell("scene:program:mmap, the same address");
	if (!ret && !pages_at(buffer))
		ret = -FI_ENOMEM;
	tell("scene:program<%d", ret);
	ret = ret ? ret : traced_write(inbox, buffer, ops);
	tell("scene:end");
	munmap(other, BYTES);
	munmap(buffer, BYTES);
	return ret;
}

int scene_cache(void)
{
	static struct inbox inbox;
	struct hmreg_domain_ops *ops;
	int ret = open_ends("emu0", FI_RMA, FI_MR_LOCAL | FI_MR_HMEM), failed;

	if (!ret)
		ret = sample_register_buffer(&far, inbox.bytes, BYTES, FI_REMOTE_WRITE, &inbox.mr);
	if (!ret)
		ret = sample_share(&far, inbox.mr, inbox.bytes, &inbox.shared);
	if (!ret)
		ret = sample_use(&near, &inbox.shared, &inbox.key);
	if (!ret)
		ret = fi_open_ops(&near.domain->fid, HMREG_DOMAIN_OPS, 0, (void **)&ops, NULL);
	if (!ret)
		ret = cached_writes(&inbox, ops);
	failed = inbox.key ? sample_unuse(&near, &inbox.shared, inbox.key) : 0;
	ret = ret ? ret : failed;
	failed = inbox.mr ? fi_close(&inbox.mr->fid) : 0;
	return close_ends(ret ? ret : failed);
}

/* ---- parts of a region ---- */

static const struct {
	const char *text;
	uint64_t rights;
	size_t offset, len;
} parts[] = {
	{ "peers write", FI_REMOTE_WRITE, 0, POOL / 4 },
	{ "peers read", FI_REMOTE_READ, POOL / 4, POOL / 4 },
	{ "peers read and write", FI_REMOTE_READ | FI_REMOTE_WRITE, POOL / 2, POOL / 2 },
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static int close_region(struct fid_mr *mr, const char *text)
{
	int ret;

	tell("scene:program:fi_close(%s)", text);
	ret = fi_close(&mr->fid);
	tell("scene:program<%s", ret ? fi_strerror(-ret) : "0");
	return ret;
}

static int open_parts(char *pool, struct fid_mr *base, struct fid_mr **part)
{
	int ret = 0;

	for (size_t i = 0; i < PARTS && !ret; i++) {
		tell("scene:program:part %zu: offset %zu, %zu bytes, %s", i + 1, parts[i].offset,
		     parts[i].len, parts[i].text);
		ret = sample_register_part(&near, base, pool + parts[i].offset, parts[i].len,
					   parts[i].rights, &part[i]);
		if (ret)
			break;
		for (size_t k = 0; k < i; k++)
			if (fi_mr_key(part[k]) == fi_mr_key(part[i]))
				ret = -FI_EOTHER;
		tell("scene:program<%s", ret || fi_mr_key(part[i]) == fi_mr_key(base)
						 ? "a key that is another's"
						 : "a key of its own");
	}
	return ret;
}

int scene_parts(void)
{
	static char pool[POOL] __attribute__((aligned(4096)));
	struct fid_mr *base = NULL, *part[PARTS] = { NULL };
	int ret = open_ends("emu0", FI_RMA, FI_MR_HMEM);

	tell("scene:begin:parts");
	if (!ret) {
		tell("scene:program:base: offset 0, %d bytes, peers read and write", POOL);
		ret = sample_register_buffer(&near, pool, POOL, FI_REMOTE_READ | FI_REMOTE_WRITE,
					     &base);
		tell("scene:program<%s", ret ? fi_strerror(-ret) : "a key of its own");
	}
	if (!ret)
		ret = open_parts(pool, base, part);
	if (!ret && close_region(base, "base") != -FI_EBUSY)
		ret = -FI_EOTHER;
	for (size_t i = 0; i < PARTS && !ret; i++)
		ret = close_region(part[i], "part");
	if (!ret)
		ret = close_region(base, "base");
	tell("scene:end");
	return close_ends(ret);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} scenes[] = {
		{ "registration", scene_registration },
		{ "cache", scene_cache },
		{ "parts", scene_parts },
		{ "device", scene_device },
	};

	for (size_t i = 0; argc == 2 && i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(argv[1], scenes[i].name))
			return scenes[i].run() ? EXIT_FAILURE : EXIT_SUCCESS;
	fputs("usage: guide_scenes registration|cache|parts|device\n", stderr);
	return 2;
}
