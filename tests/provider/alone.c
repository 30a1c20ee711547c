/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of libfabric, with nothing of this library but what libfabric loads. */
#include "user.h"

int main(void)
{
	return provider_cases();
}
