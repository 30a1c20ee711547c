/* SPDX-License-Identifier: BSD-2-Clause */
/* Virtual ports of the software NIC: where endpoints of this process find each other. */
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/spin.h"
#include "core/nic/sw.h"

/* word = listening (1 bit) | references; made once per number and kept for the process's life. */
struct sw_port {
	_Alignas(64) _Atomic uint64_t word;
	struct sw_ep *ep; /* constant while listening */
};

#define LISTENING	  (UINT64_C(1) << 32)
#define REFERENCES	  (LISTENING - 1)
#define PAGE_PORTS	  256
#define FIRST_FREE_CHOICE 1024u

static _Atomic(struct sw_port *) pages[65536 / PAGE_PORTS];
static pthread_mutex_t bind_lock =
	PTHREAD_MUTEX_INITIALIZER; /* protects bound, next_choice, serials */
static uint8_t bound[65536 / 8];
static uint32_t next_choice = FIRST_FREE_CHOICE;
static uint64_t serials;

static bool is_bound(uint32_t number)
{
	return bound[number / 8] & 1u << number % 8;
}

static struct sw_port *make_port(uint16_t number)
{
	struct sw_port *page =
		atomic_load_explicit(&pages[number / PAGE_PORTS], memory_order_relaxed);

	if (!page) {
		page = aligned_alloc(64, PAGE_PORTS * sizeof(*page));
		if (!page)
			return NULL;
		for (unsigned i = 0; i < PAGE_PORTS; i++) {
			atomic_init(&page[i].word, 0);
			page[i].ep = NULL;
		}
		atomic_store_explicit(&pages[number / PAGE_PORTS], page, memory_order_release);
	}
	return &page[number % PAGE_PORTS];
}

/* At exit, unless a thread may still be at work on an endpoint that nobody has closed. */
__attribute__((destructor)) static void free_pages(void)
{
	for (size_t i = 0; i < sizeof(bound); i++)
		if (bound[i])
			return;
	for (unsigned i = 0; i < 65536 / PAGE_PORTS; i++)
		free(atomic_exchange(&pages[i], NULL));
}

/* A number that was not in use for as long as possible.  bind_lock held; 0: none left. */
static uint16_t choose(void)
{
	for (uint32_t tries = FIRST_FREE_CHOICE; tries < 65536; tries++) {
		uint32_t number = next_choice++;

		if (next_choice == 65536)
			next_choice = FIRST_FREE_CHOICE;
		if (!is_bound(number))
			return (uint16_t)number;
	}
	return 0;
}

int sw_port_bind(struct sw_ep *ep, uint16_t number)
{
	struct sw_port *port;
	int ret = 0;

	pthread_mutex_lock(&bind_lock);
	if (number != 0 && is_bound(number)) {
		HM_WARN(FI_LOG_EP_CTRL, "virtual port %u is in use by another endpoint", number);
		ret = -FI_EADDRINUSE;
		goto unlock;
	}
	if (number == 0)
		number = choose();
	if (number == 0) {
		HM_WARN(FI_LOG_EP_CTRL, "all virtual ports of the software NIC are in use");
		ret = -FI_EADDRNOTAVAIL;
		goto unlock;
	}
	port = make_port(number);
	if (!port) {
		HM_WARN(FI_LOG_EP_CTRL, "no memory for a virtual port");
		ret = -FI_ENOMEM;
		goto unlock;
	}
	bound[number / 8] |= (uint8_t)(1u << number % 8);
	ep->port = port;
	ep->number = number;
	ep->serial = ++serials;
unlock:
	pthread_mutex_unlock(&bind_lock);
	return ret;
}

void sw_port_listen(struct sw_ep *ep)
{
	ep->port->ep = ep;
	atomic_fetch_or_explicit(&ep->port->word, LISTENING, memory_order_release);
}

void sw_port_unbind(struct sw_ep *ep)
{
	struct sw_port *port = ep->port;

	atomic_fetch_and_explicit(&port->word, ~LISTENING, memory_order_acq_rel);
	hm_spin_drain(&port->word, REFERENCES);
	pthread_mutex_lock(&bind_lock);
	bound[ep->number / 8] &= (uint8_t) ~(1u << ep->number % 8);
	pthread_mutex_unlock(&bind_lock);
	ep->port = NULL;
}

struct sw_ep *sw_port_acquire(uint64_t peer)
{
	uint16_t number = (uint16_t)peer;
	struct sw_port *port =
		atomic_load_explicit(&pages[number / PAGE_PORTS], memory_order_acquire);

	if (!port)
		return NULL;
	port += number % PAGE_PORTS;
	if (atomic_fetch_add_explicit(&port->word, 1, memory_order_acquire) & LISTENING)
		return port->ep;
	atomic_fetch_sub_explicit(&port->word, 1, memory_order_relaxed);
	return NULL;
}

void sw_port_release(struct sw_ep *ep)
{
	atomic_fetch_sub_explicit(&ep->port->word, 1, memory_order_release);
}
