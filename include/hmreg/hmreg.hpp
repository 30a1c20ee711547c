/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg for C++17 and later, in headers alone: memory regions and what moves bytes between them.
 * hmreg_cxx(3)
 *
 *   result.hpp   how calls fail: results, or exceptions by choice
 *   view.hpp     memory as address and length
 *   object.hpp   owners: fabric, domain, region
 *   this one     finding a port, endpoints, queues, and a port with all of them in one
 *
 * Nothing is hidden: get() gives the C object of each, for every call that has no function here.
 */
#ifndef HMREG_HMREG_HPP
#define HMREG_HMREG_HPP

#include <hmreg/object.hpp>
#include <rdma/fi_ext_hmreg.h>
#include <rdma/fi_rma.h>

namespace hmreg
{

/* What a program wants, and the rules (mr_mode) that it can follow; FI_HMEM in caps adds FI_MR_HMEM. */
struct hints {
	const char *domain = nullptr; /* NULL: any */
	const char *provider = nullptr;
	std::uint64_t caps = FI_MSG | FI_RMA;
	int mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	fi_ep_type type =
		FI_EP_RDM; /* FI_EP_UNSPEC with caps 0 or FI_HMEM: for registration alone, too */
};

/* The ports that fi_getinfo found, best first. */
class info_list
{
      public:
	info_list() noexcept = default;
	explicit info_list(fi_info *list) noexcept : list_(list)
	{
	}
	info_list(info_list &&other) noexcept : list_(other.release())
	{
	}
	info_list &operator=(info_list &&other) noexcept
	{
		if (this != &other) {
			fi_freeinfo(list_);
			list_ = other.release();
		}
		return *this;
	}
	~info_list()
	{
		fi_freeinfo(list_);
	}
	/* FI_ENODATA: nothing matches. */
	static result<info_list> try_find(const hints &wanted = {}) noexcept;
#if HMREG_EXCEPTIONS
	static info_list find(const hints &wanted = {})
	{
		return try_find(wanted).value();
	}
#endif
	fi_info *get() const noexcept
	{
		return list_;
	}
	[[nodiscard]] fi_info *release() noexcept
	{
		return std::exchange(list_, nullptr);
	}

	class iterator
	{
	      public:
		explicit iterator(fi_info *at) noexcept : at_(at)
		{
		}
		fi_info &operator*() const noexcept
		{
			return *at_;
		}
		iterator &operator++() noexcept
		{
			at_ = at_->next;
			return *this;
		}
		bool operator!=(const iterator &other) const noexcept
		{
			return at_ != other.at_;
		}

	      private:
		fi_info *at_;
	};
	iterator begin() const noexcept
	{
		return iterator(list_);
	}
	iterator end() const noexcept
	{
		return iterator(nullptr);
	}

      private:
	fi_info *list_ = nullptr;
};

inline result<info_list> info_list::try_find(const hints &wanted) noexcept
{
	info_list asked(fi_allocinfo());
	fi_info *ask = asked.get(), *found = nullptr;

	if (!ask)
		return failure{ FI_ENOMEM, "fi_allocinfo" };
	ask->caps = wanted.caps;
	ask->ep_attr->type = wanted.type;
	ask->domain_attr->mr_mode = wanted.mr_mode | (wanted.caps & FI_HMEM ? FI_MR_HMEM : 0);
	/* Lent for the call: the list must not free them. */
	ask->domain_attr->name = const_cast<char *>(wanted.domain);
	ask->fabric_attr->prov_name = const_cast<char *>(wanted.provider);
	int ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), nullptr, nullptr, 0,
			     ask, &found);
	ask->domain_attr->name = nullptr;
	ask->fabric_attr->prov_name = nullptr;
	if (ret)
		return failure{ -ret, "fi_getinfo" };
	return info_list(found);
}

/* Where an endpoint is, as plain bytes that may be sent to a peer. */
struct address {
	std::size_t size = 0;
	unsigned char bytes[128] = {};
};

/* Memory of a peer, as plain data that may be sent between machines of one byte order. */
struct remote {
	std::uint64_t address = 0;
	std::uint64_t key = 0;

	remote at(std::uint64_t offset) const noexcept
	{
		return remote{ address + offset, key };
	}
};

class address_vector : public object<fid_av>
{
      public:
	using object::object;

	/* FI_EHOSTUNREACH: nothing of this library can reach it. */
	result<fi_addr_t> try_insert(const address &peer) noexcept
	{
		int error = FI_EHOSTUNREACH;
		fi_addr_t name = FI_ADDR_NOTAVAIL;
		int ret = fi_av_insert(get(), peer.bytes, 1, &name, FI_SYNC_ERR, &error);

		if (ret == 1)
			return name;
		return failure{ ret < 0 ? -ret : error, "fi_av_insert" };
	}
#if HMREG_EXCEPTIONS
	fi_addr_t insert(const address &peer)
	{
		return try_insert(peer).value();
	}
#endif
};

/* The end of an operation. */
struct completion {
	void *context = nullptr; /* as it was posted */
	std::uint64_t flags = 0;
	std::size_t size = 0;	/* received bytes */
	std::uint64_t data = 0; /* with FI_REMOTE_CQ_DATA */
	int error = 0;		/* 0: success; else an FI_E code */
	int cause = 0;		/* of a failed one: enum hmreg_error */
};

/* What queue::wait() throws for an operation that failed: which one it was. */
class operation_error : public error
{
      public:
	explicit operation_error(const completion &done)
		: error(failure{ done.error, "operation" }), done_(done)
	{
	}
	const completion &done() const noexcept
	{
		return done_;
	}

      private:
	completion done_;
};

class queue : public object<fid_cq>
{
      public:
	using object::object;

	/*
	 * The next completion, of a failed operation as well; negative: without end.  FI_EAGAIN: none came
	 * in that time.
	 */
	result<completion> try_wait(int milliseconds) noexcept
	{
		fi_cq_data_entry entry{};
		ssize_t ret = fi_cq_sread(get(), &entry, 1, nullptr, milliseconds);

		if (ret == -FI_EAVAIL)
			return read_error();
		if (ret != 1)
			return failure{ ret < 0 ? static_cast<int>(-ret) : FI_EAGAIN,
					"fi_cq_sread" };
		completion done;
		done.context = entry.op_context;
		done.flags = entry.flags;
		done.size = entry.len;
		done.data = entry.data;
		return done;
	}
#if HMREG_EXCEPTIONS
	completion wait(int milliseconds = -1)
	{
		completion done = try_wait(milliseconds).value();

		if (done.error)
			throw operation_error(done);
		return done;
	}
#endif

      private:
	result<completion> read_error() noexcept
	{
		fi_cq_err_entry entry{};
		ssize_t ret = fi_cq_readerr(get(), &entry, 0);

		if (ret != 1)
			return failure{ ret < 0 ? static_cast<int>(-ret) : FI_EAGAIN,
					"fi_cq_readerr" };
		completion done;
		done.context = entry.op_context;
		done.flags = entry.flags;
		done.size = entry.len;
		done.data = entry.data;
		done.error = entry.err;
		done.cause = entry.prov_errno;
		return done;
	}
};

/*
 * Operations are posted and complete later; memory and regions have to live until then.  FI_EAGAIN: the
 * queue is full, read it and post again.
 */
class endpoint : public object<fid_ep>
{
      public:
	using object::object;

	result<address> try_name() const noexcept
	{
		address own;

		own.size = sizeof(own.bytes);
		int ret = fi_getname(&get()->fid, own.bytes, &own.size);
		if (ret)
			return failure{ -ret, "fi_getname" };
		return own;
	}
	result<void> try_write(const_view from, void *desc, fi_addr_t peer, const remote &to,
			       void *context = nullptr) noexcept
	{
		return result<void>("fi_write", fi_write(get(), from.data(), from.size(), desc,
							 peer, to.address, to.key, context));
	}
	result<void> try_read(view to, void *desc, fi_addr_t peer, const remote &from,
			      void *context = nullptr) noexcept
	{
		return result<void>("fi_read", fi_read(get(), to.data(), to.size(), desc, peer,
						       from.address, from.key, context));
	}
	result<void> try_send(const_view from, void *desc, fi_addr_t peer,
			      void *context = nullptr) noexcept
	{
		return result<void>("fi_send",
				    fi_send(get(), from.data(), from.size(), desc, peer, context));
	}
	result<void> try_receive(view to, void *desc, fi_addr_t peer = FI_ADDR_UNSPEC,
				 void *context = nullptr) noexcept
	{
		return result<void>("fi_recv",
				    fi_recv(get(), to.data(), to.size(), desc, peer, context));
	}
#if HMREG_EXCEPTIONS
	address name() const
	{
		return try_name().value();
	}
	void write(const_view from, void *desc, fi_addr_t peer, const remote &to,
		   void *context = nullptr)
	{
		try_write(from, desc, peer, to, context).value();
	}
	void read(view to, void *desc, fi_addr_t peer, const remote &from, void *context = nullptr)
	{
		try_read(to, desc, peer, from, context).value();
	}
	void send(const_view from, void *desc, fi_addr_t peer, void *context = nullptr)
	{
		try_send(from, desc, peer, context).value();
	}
	void receive(view to, void *desc, fi_addr_t peer = FI_ADDR_UNSPEC, void *context = nullptr)
	{
		try_receive(to, desc, peer, context).value();
	}
#endif
};

static_assert(sizeof(endpoint) == sizeof(void *) && sizeof(queue) == sizeof(void *));

/*
 * A NIC port with all that an endpoint needs, opened and enabled.  Its regions are declared after it, so that
 * they are closed before it; what is still open in it when it goes keeps its domain and fabric open
 * (object.hpp).
 */
class port
{
      public:
	port() noexcept = default;
	port(port &&other) noexcept = default;
	/* By swapping: members that were assigned one by one would close the fabric before its domain. */
	port &operator=(port &&other) noexcept
	{
		port taken(std::move(other));

		swap(taken);
		return *this;
	}
	~port() = default;
	void swap(port &other) noexcept
	{
		std::swap(info_, other.info_);
		std::swap(fabric_, other.fabric_);
		std::swap(domain_, other.domain_);
		std::swap(vector_, other.vector_);
		std::swap(queue_, other.queue_);
		std::swap(endpoint_, other.endpoint_);
	}
	/* Opens the first that fits; what was opened before a failure is closed again. */
	static result<port> try_open(const hints &wanted = {}) noexcept;
	/*
	 * In the order of use, up to the first that is still used: it and those behind it stay, and the call
	 * may be repeated.
	 */
	result<void> try_close() noexcept;
#if HMREG_EXCEPTIONS
	static port open(const hints &wanted = {})
	{
		return try_open(wanted).value();
	}
	void close()
	{
		try_close().value();
	}
#endif
	const fi_info *info() const noexcept
	{
		return info_.get();
	}
	const class fabric &fabric() const noexcept
	{
		return fabric_;
	}
	const class domain &domain() const noexcept
	{
		return domain_;
	}
	class address_vector &addresses() noexcept
	{
		return vector_;
	}
	class queue &queue() noexcept
	{
		return queue_;
	}
	class endpoint &endpoint() noexcept
	{
		return endpoint_;
	}
	/* What a peer needs for memory, or a part of it, that starts offset bytes into a region. */
	hmreg::remote remote(const region &of, view memory, std::uint64_t offset = 0) const noexcept
	{
		bool by_address = info_.get()->domain_attr->mr_mode & FI_MR_VIRT_ADDR;

		return hmreg::remote{ by_address ? memory.address() + offset : offset, of.key() };
	}

      private:
	result<void> open_objects() noexcept;
	result<void> enable() noexcept;

	info_list info_;
	class fabric fabric_;
	class domain domain_;
	address_vector vector_;
	class queue queue_;
	class endpoint endpoint_;
};

/* open_as(OBJECT, "call", RET, FID): takes over what a call opened. */
template <class Object, class Fid>
result<void> open_as(Object &object, const char *call, int ret, Fid *fid) noexcept
{
	if (!ret)
		object = Object(fid);
	return result<void>(call, ret);
}

inline result<void> port::open_objects() noexcept
{
	fi_info *info = info_.get();
	fid_fabric *fabric = nullptr;
	fid_domain *domain = nullptr;
	fid_av *av = nullptr;
	fid_cq *cq = nullptr;
	fid_ep *ep = nullptr;
	fi_av_attr av_attr{};
	fi_cq_attr cq_attr{};

	av_attr.count = 1;
	cq_attr.wait_obj = FI_WAIT_UNSPEC;
	cq_attr.format = FI_CQ_FORMAT_DATA;
	int ret = fi_fabric(info->fabric_attr, &fabric, nullptr);
	auto opened = open_as(fabric_, "fi_fabric", ret, fabric);
	if (!opened)
		return opened;
	ret = fi_domain(fabric, info, &domain, nullptr);
	opened = open_as(domain_, "fi_domain", ret, domain);
	if (!opened || info->ep_attr->type == FI_EP_UNSPEC)
		return opened; /* for registration alone */
	ret = fi_av_open(domain, &av_attr, &av, nullptr);
	opened = open_as(vector_, "fi_av_open", ret, av);
	if (!opened)
		return opened;
	ret = fi_cq_open(domain, &cq_attr, &cq, nullptr);
	opened = open_as(queue_, "fi_cq_open", ret, cq);
	if (!opened)
		return opened;
	ret = fi_endpoint(domain, info, &ep, nullptr);
	opened = open_as(endpoint_, "fi_endpoint", ret, ep);
	return opened ? enable() : opened;
}

inline result<void> port::enable() noexcept
{
	fid_ep *ep = endpoint_.get();
	int ret = fi_ep_bind(ep, &vector_.get()->fid, 0);

	if (!ret)
		ret = fi_ep_bind(ep, &queue_.get()->fid, FI_TRANSMIT | FI_RECV);
	if (ret)
		return result<void>("fi_ep_bind", ret);
	return result<void>("fi_enable", fi_enable(ep));
}

inline result<port> port::try_open(const hints &wanted) noexcept
{
	port opened;
	result<info_list> found = info_list::try_find(wanted);

	if (!found)
		return found.error();
	opened.info_ = std::move(*found);
	result<void> done = opened.open_objects();
	if (!done)
		return done.error();
	return opened;
}

inline result<void> port::try_close() noexcept
{
	result<void> closed = endpoint_.try_close();

	if (closed)
		closed = queue_.try_close();
	if (closed)
		closed = vector_.try_close();
	if (closed)
		closed = domain_.try_close();
	if (closed)
		closed = fabric_.try_close();
	return closed;
}

} // namespace hmreg

#endif
