/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How devices and ports are found, when ports are asked for first, and those that could not be used then
 * whenever somebody looks again:
 *
 *   verbs_device.c   the devices of libibverbs, what each can do
 *   verbs_ports.c    the ports of one device, as struct verbs_port
 *   verbs_gid.c      addresses of one port
 *   verbs_attr.c     fid_nic of one port
 *   verbs_missing.c  what was left out and why, for whoever asks for it by name
 */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include "core/nic/verbs.h"

#define VERBS_NAME 64 /* room for a device's name */

/* An address of a port; librdmacm has bound it to this very port.  len 0: only a GID, if that. */
struct verbs_address {
	struct sockaddr_storage addr;
	socklen_t len;
	int gid_index; /* -1: none */
	uint32_t gid_type;
	union ibv_gid gid;
};

/*
 * The best IPv4 and the best IPv6 address of a port; *found says how many there are, IPv4 first.  0, or
 * the errno by which librdmacm cannot be used at all.
 */
int verbs_addresses_of(const struct verbs_device *device, struct ibv_context *context,
		       uint8_t number, const struct ibv_port_attr *attr,
		       struct verbs_address found[2], size_t *count);

/* The GID that queue pairs of a program's own do best with, in an address without one; or none. */
void verbs_gid_of(const struct verbs_device *device, struct ibv_context *context, uint8_t number,
		  const struct ibv_port_attr *attr, struct verbs_address *out);

/*
 * Which device and port librdmacm gives an identifier that is bound to addr.  0, or an errno; name is
 * empty where it is bound to none.
 */
int verbs_bound_to(const struct sockaddr *addr, char name[VERBS_NAME], uint8_t *number);

/* fid_nic of a port, on the heap for the process's life; NULL: no memory. */
const struct fid_nic *verbs_nic_attr(const struct verbs_device *device,
				     const struct ibv_port_attr *attr, const union ibv_gid *gid);

/* Ports are referred to for the process's life, so that the array is as long as it can get. */
struct verbs_port_list {
	struct verbs_port *port;
	size_t count, room;
};
/*
 * Append the usable ports of a device that are not in the list yet; verbs_missing_add for the others.
 * *all: there are no others.  context is open.  -FI_ENOMEM.
 */
int verbs_ports_add(struct verbs_port_list *list, struct verbs_device *device,
		    struct ibv_context *context, bool *all);
/* A device is looked at again: what was missing of it is forgotten unless it is added again. */
void verbs_missing_renew(const char *device);
/*
 * number 0: all ports of the device.  ret: what verbs_port_missing returns, after it has logged the
 * text; the text is logged at level info at once, where it is not what was said before.
 */
void verbs_missing_add(const char *device, unsigned number, int ret, enum hmreg_cause cause,
		       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* For tests that count memory: entries so far, which stay for the process's life. */
size_t verbs_missing_kept(void);

/*
 * verbs_window_try.c: HMREG_CAN_WINDOWS and HMREG_CAN_DMABUF_WINDOWS, as they were found to work; the reason
 * why sub-MRs are no windows, or "", goes to text.
 */
uint64_t verbs_window_try(const struct verbs_device *device, struct ibv_context *context,
			  const struct verbs_port *port, char *text, size_t room);

/* Has libibverbs listed this device when devices were looked for? */
bool verbs_device_listed(const char *name);

#endif
