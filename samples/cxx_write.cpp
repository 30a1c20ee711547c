/* SPDX-License-Identifier: BSD-2-Clause */
/* A write through a key, in C++: two buffers of one process.  cxx_write [DOMAIN] */
#include <cstdio>
#include <hmreg/hmreg.hpp>

int main(int, char **argv)
{
	char from[] = "written from C++", to[sizeof(from)] = "";
	auto port = hmreg::port::open({ argv[1] });
	auto source = port.domain().register_memory(hmreg::bytes(from), FI_WRITE);
	auto target = port.domain().register_memory(hmreg::bytes(to), FI_REMOTE_WRITE);
	fi_addr_t self = port.addresses().insert(port.endpoint().name());
	port.endpoint().write(hmreg::bytes(from), source.desc(), self,
			      port.remote(target, hmreg::bytes(to)));
	port.queue().wait();
	std::puts(to);
}
