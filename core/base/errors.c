/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_strerror: constant texts out of tables of our own. strerror(3) is not used because it may hand
 * out a buffer that another thread overwrites.
 */
#include "core/base/errors.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include <rdma/fabric.h>

#include "core/base/export.h"

static const char *const system_text[] = {
	[0] = "Success",
	[EPERM] = "Operation not permitted",
	[ENOENT] = "No such file, directory or object",
	[ESRCH] = "No such process",
	[EINTR] = "Interrupted by a signal",
	[EIO] = "Input/output error",
	[ENXIO] = "No such device or address",
	[E2BIG] = "Argument list too long",
	[ENOEXEC] = "Not an executable format",
	[EBADF] = "Bad file descriptor",
	[ECHILD] = "No child process",
	[EAGAIN] = "Resource temporarily unavailable, try again",
	[ENOMEM] = "Cannot allocate memory",
	[EACCES] = "Permission denied",
	[EFAULT] = "Bad address",
	[ENOTBLK] = "Block device required",
	[EBUSY] = "Device or resource busy",
	[EEXIST] = "Already exists",
	[EXDEV] = "Link across devices",
	[ENODEV] = "No such device",
	[ENOTDIR] = "Not a directory",
	[EISDIR] = "Is a directory",
	[EINVAL] = "Invalid argument",
	[ENFILE] = "Too many open files in the system",
	[EMFILE] = "Too many open files in this process",
	[ENOTTY] = "Operation does not suit this device",
	[ETXTBSY] = "Executable file is in use",
	[EFBIG] = "File too large",
	[ENOSPC] = "No space left",
	[ESPIPE] = "Cannot seek",
	[EROFS] = "Read-only file system",
	[EMLINK] = "Too many links",
	[EPIPE] = "Broken pipe",
	[EDOM] = "Argument outside the domain of the function",
	[ERANGE] = "Result out of range",
	[EDEADLK] = "Resource deadlock avoided",
	[ENAMETOOLONG] = "Name too long",
	[ENOLCK] = "No locks available",
	[ENOSYS] = "Function not implemented",
	[ENOTEMPTY] = "Directory not empty",
	[ELOOP] = "Too many levels of symbolic links",
	[ENOMSG] = "No message of the desired type",
	[EIDRM] = "Identifier removed",
	[ECHRNG] = "Channel number out of range",
	[EL2NSYNC] = "Level 2 not synchronized",
	[EL3HLT] = "Level 3 halted",
	[EL3RST] = "Level 3 reset",
	[ELNRNG] = "Link number out of range",
	[EUNATCH] = "Protocol driver not attached",
	[ENOCSI] = "No CSI structure available",
	[EL2HLT] = "Level 2 halted",
	[EBADE] = "Invalid exchange",
	[EBADR] = "Invalid request descriptor",
	[EXFULL] = "Exchange full",
	[ENOANO] = "No anode",
	[EBADRQC] = "Invalid request code",
	[EBADSLT] = "Invalid slot",
	[EBFONT] = "Bad font file format",
	[ENOSTR] = "Device is not a stream",
	[ENODATA] = "No data available",
	[ETIME] = "Timer expired",
	[ENOSR] = "Out of streams resources",
	[ENONET] = "Machine is not on the network",
	[ENOPKG] = "Package not installed",
	[EREMOTE] = "Object is remote",
	[ENOLINK] = "Link has been severed",
	[EADV] = "Advertise error",
	[ESRMNT] = "Remote mount error",
	[ECOMM] = "Communication error on send",
	[EPROTO] = "Protocol error",
	[EMULTIHOP] = "Multihop attempted",
	[EDOTDOT] = "RFS error",
	[EBADMSG] = "Bad message",
	[EOVERFLOW] = "Value too large for its type",
	[ENOTUNIQ] = "Name not unique on the network",
	[EBADFD] = "File descriptor in bad state",
	[EREMCHG] = "Remote address changed",
	[ELIBACC] = "Cannot access a needed shared library",
	[ELIBBAD] = "Corrupted shared library",
	[ELIBSCN] = "Corrupted .lib section",
	[ELIBMAX] = "Too many shared libraries",
	[ELIBEXEC] = "A shared library cannot be executed",
	[EILSEQ] = "Invalid or incomplete multibyte character",
	[ERESTART] = "Interrupted system call should be restarted",
	[ESTRPIPE] = "Streams pipe error",
	[EUSERS] = "Too many users",
	[ENOTSOCK] = "Not a socket",
	[EDESTADDRREQ] = "Destination address required",
	[EMSGSIZE] = "Message too long",
	[EPROTOTYPE] = "Wrong protocol for the endpoint",
	[ENOPROTOOPT] = "Protocol option not available",
	[EPROTONOSUPPORT] = "Protocol not supported",
	[ESOCKTNOSUPPORT] = "Socket type not supported",
	[EOPNOTSUPP] = "Operation not supported",
	[EPFNOSUPPORT] = "Protocol family not supported",
	[EAFNOSUPPORT] = "Address family not supported by the protocol",
	[EADDRINUSE] = "Address already in use",
	[EADDRNOTAVAIL] = "Cannot assign the requested address",
	[ENETDOWN] = "Network is down",
	[ENETUNREACH] = "Network is unreachable",
	[ENETRESET] = "Network dropped the connection on reset",
	[ECONNABORTED] = "Connection aborted",
	[ECONNRESET] = "Connection reset by peer",
	[ENOBUFS] = "No buffer space available",
	[EISCONN] = "Endpoint is already connected",
	[ENOTCONN] = "Endpoint is not connected",
	[ESHUTDOWN] = "Cannot send after shutdown",
	[ETOOMANYREFS] = "Too many references",
	[ETIMEDOUT] = "Connection or operation timed out",
	[ECONNREFUSED] = "Connection refused",
	[EHOSTDOWN] = "Host is down",
	[EHOSTUNREACH] = "No route to host",
	[EALREADY] = "Operation already in progress",
	[EINPROGRESS] = "Operation now in progress",
	[ESTALE] = "Stale handle",
	[EUCLEAN] = "Structure needs cleaning",
	[ENOTNAM] = "Not a XENIX named type file",
	[ENAVAIL] = "No XENIX semaphores available",
	[EISNAM] = "Is a named type file",
	[EREMOTEIO] = "Remote input/output error",
	[EDQUOT] = "Quota exceeded",
	[ENOMEDIUM] = "No medium found",
	[EMEDIUMTYPE] = "Wrong medium type",
	[ECANCELED] = "Operation canceled",
	[ENOKEY] = "Security key not available",
	[EKEYEXPIRED] = "Key has expired",
	[EKEYREVOKED] = "Key has been revoked",
	[EKEYREJECTED] = "Key was rejected",
	[EOWNERDEAD] = "Owner died",
	[ENOTRECOVERABLE] = "State not recoverable",
	[ERFKILL] = "Radio is switched off",
	[EHWPOISON] = "Memory page has a hardware error",
};

#define FABRIC(code) [(code)-FI_ERRNO_OFFSET]

static const char *const fabric_text[] = {
	FABRIC(FI_EOTHER) = "Unspecified error",
	FABRIC(FI_ETOOSMALL) = "Provided buffer is too small",
	FABRIC(FI_EOPBADSTATE) = "Operation not permitted in the current state",
	FABRIC(FI_EAVAIL) = "An error entry is waiting to be read",
	FABRIC(FI_EBADFLAGS) = "Flags not supported",
	FABRIC(FI_ENOEQ) = "Missing or unavailable event queue",
	FABRIC(FI_EDOMAIN) = "Invalid resource domain",
	FABRIC(FI_ENOCQ) = "Missing or unavailable completion queue",
	FABRIC(FI_ECRC) = "Checksum error",
	FABRIC(FI_ETRUNC) = "Message was truncated",
	FABRIC(FI_ENOKEY) = "Required memory key not available",
	FABRIC(FI_ENOAV) = "Missing or unavailable address vector",
	FABRIC(FI_EOVERRUN) = "Queue has been overrun",
	FABRIC(FI_ENORX) = "Receiver not ready, no receive buffer posted",
	FABRIC(FI_ENOMR) = "No more memory registrations available",
	FABRIC(FI_EFIREWALLADDR) = "Peer has a firewall address and cannot be reached directly",
};

static_assert(count_of(fabric_text) == FI_ERRNO_MAX - FI_ERRNO_OFFSET,
	      "every fabric error code needs a text");

HM_EXPORT const char *fi_strerror(int errnum)
{
	/* Negated as unsigned: INT_MIN has no positive counterpart. */
	unsigned int code = errnum < 0 ? 0u - (unsigned int)errnum : (unsigned int)errnum;
	const char *text = NULL;

	if (code < count_of(system_text))
		text = system_text[code];
	else if (code >= FI_ERRNO_OFFSET && code - FI_ERRNO_OFFSET < count_of(fabric_text))
		text = fabric_text[code - FI_ERRNO_OFFSET];
	return text ? text : HM_UNKNOWN_ERROR;
}
