/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/hmem/make_cuda_peer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/hmem/cuda_calls.h"

#define MOST_DEVICES 16

struct request {
	int ordinal;
	size_t len; /* 0: free theirs */
	cu_ptr theirs;
};

struct reply {
	cu_result result;
	cu_ptr theirs;
	struct cu_ipc_handle handle;
};

static int channel = -1; /* ours for the life of the program */

static cu_result enter(int ordinal)
{
	static cu_context contexts[MOST_DEVICES];
	cu_device device;
	cu_result result = CU_OK;

	if (!cuda.init && cuda_calls_load())
		return CU_NOT_INITIALIZED;
	if (!contexts[ordinal] && ((result = cuda.init(0)) != CU_OK ||
				   (result = cuda.device(&device, ordinal)) != CU_OK ||
				   (result = cuda.primary_retain(&contexts[ordinal], device))))
		return result;
	return cuda.ctx_set(contexts[ordinal]);
}

static struct reply serve(const struct request *request)
{
	struct reply reply = { .result = enter(request->ordinal) };

	if (reply.result == CU_OK && request->len == 0)
		reply.result = cuda.free(request->theirs);
	else if (reply.result == CU_OK)
		reply.result = cuda.alloc(&reply.theirs, request->len);
	if (reply.result == CU_OK && request->len != 0)
		reply.result = cuda.ipc_get(&reply.handle, reply.theirs);
	return reply;
}

static void serve_until_end(int end)
{
	struct request request;
	struct reply reply;

	while (read(end, &request, sizeof(request)) == sizeof(request)) {
		reply = serve(&request);
		if (write(end, &reply, sizeof(reply)) != sizeof(reply))
			break;
	}
	_exit(0);
}

bool cuda_peer_start(void)
{
	int ends[2];
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return false;
	child = fork();
	if (child == 0) {
		close(ends[0]);
		serve_until_end(ends[1]);
	}
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return false;
	}
	channel = ends[0];
	return true;
}

static cu_result ask(const struct request *request, struct reply *reply)
{
	if (channel < 0 || write(channel, request, sizeof(*request)) != sizeof(*request) ||
	    read(channel, reply, sizeof(*reply)) != sizeof(*reply))
		return CU_UNKNOWN;
	return reply->result;
}

cu_result cuda_peer_alloc(int ordinal, size_t len, cu_ptr *theirs, struct cu_ipc_handle *handle)
{
	struct request request;
	struct reply reply;
	cu_result result;

	memset(&request, 0,
	       sizeof(request)); /* with what is between its members: all of it is sent */
	request.ordinal = ordinal;
	request.len = len;
	result = ask(&request, &reply);
	if (result == CU_OK) {
		*theirs = reply.theirs;
		*handle = reply.handle;
	}
	return result;
}

cu_result cuda_peer_free(int ordinal, cu_ptr theirs)
{
	struct request request;
	struct reply reply;

	memset(&request, 0, sizeof(request));
	request.ordinal = ordinal;
	request.theirs = theirs;
	return ask(&request, &reply);
}
