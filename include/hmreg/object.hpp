/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owners of the interface's objects: one pointer each, move only.  hmreg_cxx(3)
 *
 * - An object is empty, or owns what it points to: get() is NULL, or the C object.  Moved-from objects are
 *   empty; moving one to itself changes nothing.
 * - The destructor closes.  What others still use is not closed by the library (-FI_EBUSY): try_close() and
 *   close() then report it, and the object goes on owning what is as good as before.  Destructor and move
 *   assignment have no way to report: what they cannot close stays open without an owner until the process
 *   ends, and close_failed() is called, if the program has set it.
 * - So objects are declared in the order of use: a fabric before its domain, a domain before its regions.
 * - Calls on one object from several threads are as safe as the C calls; moving, closing and destroying it
 *   are for one thread, while no other uses it.
 */
#ifndef HMREG_OBJECT_HPP
#define HMREG_OBJECT_HPP

#include <atomic>
#include <cstdint>
#include <utility>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <hmreg/result.hpp>
#include <hmreg/view.hpp>

namespace hmreg
{

/*
 * Called when a destructor or a move assignment could not close an object, in the thread that tried.  NULL,
 * the default: nobody is told (the library's log is, at level warn).
 */
using close_handler = void (*)(const failure &) noexcept;
inline std::atomic<close_handler> close_failed{ nullptr };

/* Owns a struct fid_fabric, fid_domain, fid_mr, ...: whatever starts with a struct fid. */
template <class Fid> class object
{
      public:
	object() noexcept = default;
	/* Takes over what a C call opened. */
	explicit object(Fid *fid) noexcept : fid_(fid)
	{
	}
	object(object &&other) noexcept : fid_(other.release())
	{
	}
	object &operator=(object &&other) noexcept
	{
		if (this != &other) {
			finish();
			fid_ = other.release();
		}
		return *this;
	}
	~object()
	{
		finish();
	}
	Fid *get() const noexcept
	{
		return fid_;
	}
	explicit operator bool() const noexcept
	{
		return fid_;
	}
	/* Gives the C object away; the caller closes it. */
	[[nodiscard]] Fid *release() noexcept
	{
		return std::exchange(fid_, nullptr);
	}
	/* An empty object is closed already: success.  After a failure it is as it was. */
	result<void> try_close() noexcept
	{
		int ret = fid_ ? fi_close(&fid_->fid) : 0;

		if (!ret)
			fid_ = nullptr;
		return result<void>("fi_close", ret);
	}
#if HMREG_EXCEPTIONS
	void close()
	{
		try_close().value();
	}
#endif

      private:
	void finish() noexcept
	{
		result<void> closed = try_close();

		if (closed)
			return;
		fid_ = nullptr;
		if (close_handler told = close_failed.load(std::memory_order_acquire))
			told(closed.error());
	}

	Fid *fid_ = nullptr;
};

/* The root of everything. */
class fabric : public object<fid_fabric>
{
      public:
	using object::object;
};

/* A registered region. */
class region : public object<fid_mr>
{
      public:
	using object::object;

	/* FI_KEY_NOTAVAIL: there is none (yet), or it is a raw one. */
	std::uint64_t key() const noexcept
	{
		return fi_mr_key(get());
	}
	/* For local transfers. */
	void *desc() const noexcept
	{
		return fi_mr_desc(get());
	}
	/* Where the domain's mr_mode asks for it: fi_mr_bind and fi_mr_enable. */
	result<void> try_bind(fid *to, std::uint64_t flags) noexcept
	{
		return result<void>("fi_mr_bind", fi_mr_bind(get(), to, flags));
	}
	result<void> try_enable() noexcept
	{
		return result<void>("fi_mr_enable", fi_mr_enable(get()));
	}
#if HMREG_EXCEPTIONS
	void bind(fid *to, std::uint64_t flags)
	{
		try_bind(to, flags).value();
	}
	void enable()
	{
		try_enable().value();
	}
#endif
};

/* Rights of a region by which its own memory is changed. */
inline constexpr std::uint64_t writing_access = FI_RECV | FI_READ | FI_REMOTE_WRITE;

/*
 * What a registration says beside the memory.  Without key() a number is taken that this header has given
 * to no other region of the process; it matters only where the NIC leaves keys to programs.
 */
class registration
{
      public:
	registration(std::uint64_t access) noexcept
	{
		attr_.access = access;
		attr_.requested_key = FI_KEY_NOTAVAIL;
	}
	/* Whose memory it is; a Level Zero device as fi_hmem_ze_device() has it.  Needs FI_HMEM. */
	registration &on(fi_hmem_iface iface, int device) noexcept
	{
		attr_.iface = iface;
		attr_.device.reserved = 0;
		attr_.device.cuda = device; /* all of the union's numbers are one */
		return *this;
	}
	registration &key(std::uint64_t requested) noexcept
	{
		attr_.requested_key = requested;
		return *this;
	}
	registration &flags(std::uint64_t flags) noexcept
	{
		flags_ = flags;
		return *this;
	}
	registration &context(void *context) noexcept
	{
		attr_.context = context;
		return *this;
	}

      private:
	friend class domain;
	fi_mr_attr attr_{};
	std::uint64_t flags_ = 0;
};

/* A NIC port as one user sees it. */
class domain : public object<fid_domain>
{
      public:
	using object::object;

	/* Memory by its address, the host's or a device's.  FI_EACCES: a const view for writing access. */
	result<region> try_register_memory(view memory, const registration &how) const noexcept
	{
		return register_range(memory.data(), memory.size(), how, nullptr);
	}
	result<region> try_register_memory(const_view memory,
					   const registration &how) const noexcept
	{
		if (how.attr_.access & writing_access)
			return failure{ FI_EACCES, "registration of const memory for writing" };
		return register_range(const_cast<std::byte *>(memory.data()), memory.size(), how,
				      nullptr);
	}
	/* size bytes at offset of a dma-buf, which the program sees at base; fd may be closed afterwards. */
	result<region> try_register_dmabuf(int fd, std::uint64_t offset, std::size_t size,
					   void *base, const registration &how) const noexcept
	{
		fi_mr_dmabuf dmabuf{};
		fi_mr_attr attr = how.attr_;

		dmabuf.fd = fd;
		dmabuf.offset = offset;
		dmabuf.len = size;
		dmabuf.base_addr = base;
		attr.dmabuf = &dmabuf;
		attr.iov_count = 1;
		return register_attr(attr, how.flags_ | FI_MR_DMABUF);
	}
	/* A sub-MR of a region of this domain; base is closed after it. */
	result<region> try_register_part(const region &base, view part,
					 const registration &how) const noexcept
	{
		return register_range(part.data(), part.size(), how, base.get());
	}
#if HMREG_EXCEPTIONS
	region register_memory(view memory, const registration &how) const
	{
		return try_register_memory(memory, how).value();
	}
	region register_memory(const_view memory, const registration &how) const
	{
		return try_register_memory(memory, how).value();
	}
	region register_dmabuf(int fd, std::uint64_t offset, std::size_t size, void *base,
			       const registration &how) const
	{
		return try_register_dmabuf(fd, offset, size, base, how).value();
	}
	region register_part(const region &base, view part, const registration &how) const
	{
		return try_register_part(base, part, how).value();
	}
#endif

      private:
	result<region> register_range(void *data, std::size_t size, const registration &how,
				      const fid_mr *base) const noexcept
	{
		iovec iov{ data, size };
		fi_mr_attr attr = how.attr_;

		attr.mr_iov = &iov;
		attr.iov_count = 1;
		attr.base_mr = base;
		return register_attr(attr, how.flags_);
	}
	result<region> register_attr(fi_mr_attr &attr, std::uint64_t flags) const noexcept
	{
		static std::atomic<std::uint64_t> next_key{ 1 };
		fid_mr *mr = nullptr;

		if (attr.requested_key == FI_KEY_NOTAVAIL)
			attr.requested_key = next_key.fetch_add(1, std::memory_order_relaxed);
		int ret = fi_mr_regattr(get(), &attr, flags, &mr);
		if (ret)
			return failure{ -ret, "fi_mr_regattr" };
		return region(mr);
	}
};

static_assert(sizeof(fabric) == sizeof(void *) && sizeof(domain) == sizeof(void *) &&
	      sizeof(region) == sizeof(void *));

} // namespace hmreg

#endif
