/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error codes of the fabric interface, fi_errno(3).
 *
 * Calls return 0 or a count on success and a negated code (-FI_EINVAL) on failure; completion and
 * event entries carry the positive code. Codes below FI_ERRNO_OFFSET are the host's errno values,
 * so that one switch can serve system calls and fabric calls alike.
 */
#ifndef FI_ERRNO_H
#define FI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_SUCCESS 0

/* Shared with errno(3). */
#define FI_EPERM	 EPERM	       /* not permitted */
#define FI_ENOENT	 ENOENT	       /* no such object */
#define FI_EINTR	 EINTR	       /* interrupted by a signal, or by fi_cq_signal() */
#define FI_EIO		 EIO	       /* input/output error */
#define FI_E2BIG	 E2BIG	       /* argument list too long */
#define FI_EBADF	 EBADF	       /* bad file descriptor */
#define FI_EAGAIN	 EAGAIN	       /* nothing there yet, or no room now: try again */
#define FI_ENOMEM	 ENOMEM	       /* out of memory, or of memory that may be pinned */
#define FI_EACCES	 EACCES	       /* the access rights do not allow this */
#define FI_EFAULT	 EFAULT	       /* bad address */
#define FI_EBUSY	 EBUSY	       /* other objects still depend on this one */
#define FI_ENODEV	 ENODEV	       /* no such device */
#define FI_EINVAL	 EINVAL	       /* invalid argument */
#define FI_EMFILE	 EMFILE	       /* too many open file descriptors */
#define FI_ENOSPC	 ENOSPC	       /* no space left */
#define FI_ENOSYS	 ENOSYS	       /* the call does not exist for this object */
#define FI_EWOULDBLOCK	 EWOULDBLOCK   /* same value as FI_EAGAIN */
#define FI_ENOMSG	 ENOMSG	       /* no message of the wanted kind */
#define FI_ENODATA	 ENODATA       /* nothing matches */
#define FI_EPROTO	 EPROTO	       /* protocol error */
#define FI_EOVERFLOW	 EOVERFLOW     /* value does not fit */
#define FI_EMSGSIZE	 EMSGSIZE      /* message too long */
#define FI_ENOPROTOOPT	 ENOPROTOOPT   /* no such option */
#define FI_EOPNOTSUPP	 EOPNOTSUPP    /* the device or kernel cannot do this */
#define FI_EADDRINUSE	 EADDRINUSE    /* address in use */
#define FI_EADDRNOTAVAIL EADDRNOTAVAIL /* address not available */
#define FI_ENETDOWN	 ENETDOWN      /* network down */
#define FI_ENETUNREACH	 ENETUNREACH   /* network unreachable */
#define FI_ECONNABORTED	 ECONNABORTED  /* connection aborted */
#define FI_ECONNRESET	 ECONNRESET    /* connection reset by the peer */
#define FI_ENOBUFS	 ENOBUFS       /* no buffers left */
#define FI_EISCONN	 EISCONN       /* already connected */
#define FI_ENOTCONN	 ENOTCONN      /* not connected */
#define FI_ESHUTDOWN	 ESHUTDOWN     /* endpoint was shut down */
#define FI_ETIMEDOUT	 ETIMEDOUT     /* time ran out */
#define FI_ECONNREFUSED	 ECONNREFUSED  /* connection refused */
#define FI_EHOSTDOWN	 EHOSTDOWN     /* peer is down */
#define FI_EHOSTUNREACH	 EHOSTUNREACH  /* no route to the peer */
#define FI_EALREADY	 EALREADY      /* already under way */
#define FI_EINPROGRESS	 EINPROGRESS   /* under way, will finish later */
#define FI_EREMOTEIO	 EREMOTEIO     /* the peer failed the operation */
#define FI_ECANCELED	 ECANCELED     /* cancelled before it took effect */
#define FI_EKEYREJECTED	 EKEYREJECTED  /* the key cannot be used */

/* Codes of the fabric interface alone start here. */
#define FI_ERRNO_OFFSET 256

enum {
	FI_EOTHER = FI_ERRNO_OFFSET, /* a cause no other code names */
	FI_ETOOSMALL = 257,	     /* buffer too small; the needed size is reported */
	FI_EOPBADSTATE = 258,	     /* not allowed in the object's present state */
	FI_EAVAIL = 259,	     /* an error entry waits to be read */
	FI_EBADFLAGS = 260,	     /* flag unknown or not supported */
	FI_ENOEQ = 261,		     /* no event queue bound */
	FI_EDOMAIN = 262,	     /* object of another domain */
	FI_ENOCQ = 263,		     /* no completion queue bound */
	FI_ECRC = 264,		     /* checksum error */
	FI_ETRUNC = 265,	     /* message cut to the buffer's size */
	FI_ENOKEY = 266,	     /* key not available */
	FI_ENOAV = 267,		     /* no address vector bound */
	FI_EOVERRUN = 268,	     /* queue overrun */
	FI_ENORX = 269,		     /* the receiver has no buffer posted */
	FI_ENOMR = 270,		     /* no more memory regions */
	FI_EFIREWALLADDR = 271,	     /* the peer's address is behind a firewall */
	FI_ERRNO_MAX
};

/*
 * The text for a code, positive or negative. The string is static and never NULL.
 * Thread safe. fi_errno(3)
 */
const char *fi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif /* FI_ERRNO_H */
