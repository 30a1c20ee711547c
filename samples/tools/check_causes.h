/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hmreg-check: every cause it can name, in the order of the walk.  The tool, `hmreg-check --list', the table in
 * hmreg-check(1) and the test that each is provoked come from here.
 *
 *   CAUSE(id, status, stage, source, shows, cause, remedy)
 *
 * id      what scripts compare; stays what it is
 * status  the tool's exit status; stays what it is, each once, 1 to 125
 * stage   of the walk, CHECK_STAGE_...
 * source  what the library calls it: REFUSAL(name) for HMREG_CAUSE_name, ERROR(name) for a completion's HMREG_name,
 *         NONE where this tool finds it
 * shows   evidence that belongs to it beside the library's own words: SHOW_... bits
 * cause   one sentence
 * remedy  what to do; CHECK_REMEDIES below has others for single interfaces
 */
/* clang-format off */
#define CHECK_CAUSES(CAUSE)                                                                        \
	CAUSE("unexplained", 1, ANY, NONE, SHOW_ALL,                                               \
	      "A call failed in a way for which no cause is known.",                               \
	      "Run again with FI_LOG_LEVEL=debug, look at the end of dmesg, and report both.")     \
	/* ---- options ---- */                                                                    \
	CAUSE("usage", 2, OPTIONS, NONE, 0,                                                        \
	      "The command line is not understood.",                                               \
	      "`hmreg-check --help' explains each option.")                                        \
	CAUSE("bad-size", 3, OPTIONS, NONE, 0,                                                     \
	      "The size is no number of bytes that memory can have.",                              \
	      "Give a number from 1 on, with K, M, G or T behind it if you like: --size 64M.")     \
	CAUSE("bad-kind", 4, OPTIONS, NONE, 0,                                                     \
	      "There is no such kind of memory.",                                                  \
	      "`hmreg-check --help' lists the kinds.")                                             \
	CAUSE("bad-interface", 5, OPTIONS, NONE, 0,                                                \
	      "There is no such memory interface.",                                                \
	      "Name one of system, cuda, rocr, ze, neuron, synapseai.")                            \
	CAUSE("bad-device", 6, OPTIONS, NONE, 0,                                                   \
	      "The device is no number.",                                                          \
	      "Give the device's number; `hmreg-info --hmem' lists those that there are.")         \
	CAUSE("kind-elsewhere", 7, OPTIONS, NONE, 0,                                               \
	      "Memory of this kind is not of this interface.",                                     \
	      "Kinds of devices go with --iface of an accelerator, kinds of host memory without.") \
	/* ---- driver ---- */                                                                     \
	CAUSE("interface-off", 10, DRIVER, REFUSAL(IFACE_OFF), SHOW_DRIVER,                        \
	      "The variable FI_HMEM leaves this interface out.",                                   \
	      "Unset FI_HMEM, or name the interface in it.")                                       \
	CAUSE("driver-absent", 11, DRIVER, REFUSAL(LIBRARY_ABSENT), SHOW_DRIVER,                   \
	      "The driver's library is not found on this machine.",                                \
	      "Install the vendor's user library, or add its folder to LD_LIBRARY_PATH; in a "     \
	      "container, pass it in.")                                                            \
	CAUSE("driver-broken", 12, DRIVER, REFUSAL(LIBRARY_BROKEN), SHOW_DRIVER,                   \
	      "The driver's library is there, but it cannot be loaded.",                           \
	      "The loader's words name what is wrong: install the library that is missing, or "    \
	      "take the file of the wrong kind out of LD_LIBRARY_PATH.")                           \
	CAUSE("driver-old", 13, DRIVER, REFUSAL(LIBRARY_OLD), SHOW_DRIVER,                         \
	      "The driver's library lacks a function that is needed.",                             \
	      "Install a newer driver, or take the old library out of LD_LIBRARY_PATH.")           \
	CAUSE("driver-stub", 14, DRIVER, REFUSAL(LIBRARY_STUB), SHOW_DRIVER,                       \
	      "The library that was found is a stand-in for linking programs, not the driver.",    \
	      "Take the toolkit's folder `stubs' out of LD_LIBRARY_PATH, and install the "         \
	      "driver's own library.")                                                             \
	CAUSE("module-absent", 15, DRIVER, REFUSAL(MODULE_ABSENT), SHOW_DRIVER | SHOW_MODULES,     \
	      "The driver does not start, and its kernel module is not loaded.",                   \
	      "Load the kernel module (modprobe); if there is none, install the vendor's kernel "  \
	      "driver for this kernel (uname -r).  In a container, load it on the host.")          \
	CAUSE("module-mismatch", 16, DRIVER, REFUSAL(MODULE_MISMATCH), SHOW_DRIVER | SHOW_MODULES, \
	      "The driver's library and the loaded kernel module are of two versions.",            \
	      "After an update: reboot, or unload and load the module; in a container, use the "   \
	      "library of the host's version.")                                                    \
	CAUSE("device-permission", 17, DRIVER, REFUSAL(DEVICE_PERMISSION),                         \
	      SHOW_DRIVER | SHOW_MODULES,                                                          \
	      "This user may not use the device.",                                                 \
	      "Give the user access to the device's files in /dev (a group, a udev rule), or "     \
	      "pass them into the container with their permissions.")                              \
	CAUSE("driver-failed", 18, DRIVER, REFUSAL(DRIVER_FAILED), SHOW_DRIVER | SHOW_MODULES,     \
	      "The driver does not start.",                                                        \
	      "Look at dmesg: the device may have failed.  Try a program of the vendor's own; "    \
	      "if that fails too, reset the device or reboot.")                                    \
	CAUSE("no-device", 19, DRIVER, REFUSAL(DEVICE_NONE), SHOW_DRIVER | SHOW_MODULES,           \
	      "The driver works, but shows no device.",                                            \
	      "Is the device on the bus (lspci)?  Unset variables that hide devices, such as "     \
	      "CUDA_VISIBLE_DEVICES; in a container, pass the device in.")                         \
	/* ---- device ---- */                                                                     \
	CAUSE("device-unknown", 20, DEVICE, REFUSAL(DEVICE_UNKNOWN), SHOW_DRIVER,                  \
	      "The interface has no device of this number.",                                       \
	      "`hmreg-info --hmem' lists the devices with their numbers; variables such as "       \
	      "CUDA_VISIBLE_DEVICES may hide some.")                                               \
	CAUSE("driver-call", 21, ANY, REFUSAL(DRIVER_CALL), SHOW_DRIVER | SHOW_DEVICE,          \
	      "A call of the driver failed.",                                                      \
	      "The evidence has the call and its error.  Look at dmesg: the device may be lost, and "     \
	      "need a reset.")                                                                     \
	CAUSE("device-memory", 22, MEMORY, REFUSAL(DEVICE_MEMORY), SHOW_DRIVER | SHOW_DEVICE,      \
	      "The device has no memory left.",                                                    \
	      "Other programs hold it: the vendor's monitor (nvidia-smi, rocm-smi, xpu-smi) "      \
	      "shows which.  Or ask for less: --size.")                                            \
	CAUSE("no-such-memory", 23, MEMORY, REFUSAL(NO_SUCH_MEMORY), SHOW_DRIVER,                  \
	      "The interface allocates no memory of this kind.",                                   \
	      "Check memory of the kind that your program uses; for this interface that is "       \
	      "`device'.")                                                                         \
	CAUSE("host-memory", 24, MEMORY, NONE, SHOW_LIMITS,                                        \
	      "The process gets no host memory of this size.",                                     \
	      "The limit of addresses (`ulimit -v', RLIMIT_AS) is below it, or the kernel commits no "  \
	      "more (vm.overcommit_memory): raise the limit, or ask for less: --size.")            \
	/* ---- memory ---- */                                                                     \
	CAUSE("range-beyond", 31, MEMORY, REFUSAL(RANGE_ENDS), SHOW_MEMORY,                        \
	      "The range is longer than the allocation that it begins in.",                        \
	      "Register no more than was allocated; where a buffer is made of several "            \
	      "allocations, register each.")                                                       \
	CAUSE("range-mixed", 32, MEMORY, REFUSAL(RANGE_MIXED), SHOW_MEMORY,                        \
	      "The range begins in host memory and ends in a device's.",                           \
	      "The length is wrong, or the pointer: register the two parts apart.")                \
	CAUSE("owner-other", 33, MEMORY, REFUSAL(OWNER_OTHER), SHOW_MEMORY,                        \
	      "The memory is not of the interface and device that it was said to be of.",          \
	      "Fill iface and device of struct fi_mr_attr with what the memory is, or agree to "   \
	      "a domain without FI_MR_HMEM and leave them 0: then it is found.")                   \
	CAUSE("freed", 34, MEMORY, REFUSAL(MEMORY_FREED), SHOW_MEMORY,                             \
	      "The pointer was said to be a device's, but no driver knows it, and nothing is "     \
	      "mapped there.",                                                                     \
	      "It was freed, or is another process's: register while the memory is allocated, "    \
	      "in the process that allocated it.")                                                 \
	CAUSE("managed", 37, MEMORY, REFUSAL(MEMORY_MANAGED), SHOW_MEMORY | SHOW_NIC,              \
	      "Managed memory moves between host and device, so that no NIC can hold it.",         \
	      "Allocate communication buffers as device memory or pinned host memory.")            \
	CAUSE("not-exportable", 39, MEMORY, REFUSAL(MEMORY_NO_EXPORT), SHOW_MEMORY | SHOW_NIC,     \
	      "The memory was not allocated for export, and there is no other way to the NIC.",    \
	      "Allocate it as exportable (Level Zero: ze_external_memory_export_desc_t with "      \
	      "DMA_BUF; CUDA's mapped memory: a requested handle type).")                          \
	CAUSE("unmapped", 41, MEMORY, REFUSAL(MEMORY_UNMAPPED), SHOW_MEMORY,                       \
	      "There is no memory at the address.",                                                \
	      "It was unmapped or freed, or the length is wrong: register while it is there.")     \
	CAUSE("read-only", 42, MEMORY, REFUSAL(MEMORY_READ_ONLY), SHOW_MEMORY,                     \
	      "The memory is mapped for reading alone, and the rights asked for write to it.",     \
	      "Map it writable, or register it with FI_SEND, FI_WRITE and FI_REMOTE_READ alone.")  \
	CAUSE("no-access", 43, MEMORY, REFUSAL(MEMORY_NO_ACCESS), SHOW_MEMORY,                     \
	      "The memory is reserved, but may not be read (PROT_NONE).",                          \
	      "Give it pages first: mprotect(2), or the allocator's commit call.")                 \
	CAUSE("device-mapping", 44, MEMORY, REFUSAL(MEMORY_OF_DEVICE),                             \
	      SHOW_MEMORY | SHOW_PEER,                                                             \
	      "The address is a mapping of a device, which has no pages that could be pinned.",    \
	      "Register the device's dma-buf instead (FI_MR_DMABUF), or let the library find "     \
	      "its interface: FI_HMEM must not leave it out.")                                     \
	CAUSE("not-pinnable", 45, MEMORY, REFUSAL(MEMORY_UNPINNABLE), SHOW_MEMORY,                 \
	      "The memory is mapped, but its pages cannot be had.",                                \
	      "A file that is shorter than its mapping: ftruncate(2) it to the length.  A file "   \
	      "system that lets no device keep its pages: copy into anonymous memory.")            \
	/* ---- the NIC ---- */                                                                    \
	CAUSE("nic-none", 69, NIC, NONE, SHOW_NIC | SHOW_RDMA,                                     \
	      "There is no RDMA device here.",                                                     \
	      "Is the NIC on the bus (lspci), and its driver loaded?  `rdma link' shows what the " \
	      "kernel has.  --nic sw-verbs checks without one, over the software NIC.")            \
	CAUSE("nic-unknown", 70, NIC, REFUSAL(NIC_UNKNOWN), SHOW_RDMA,                             \
	      "There is no NIC of this name.",                                                     \
	      "Take one of the names in the evidence.")                                                      \
	CAUSE("nic-left-out", 71, NIC, REFUSAL(NIC_LEFT_OUT), SHOW_RDMA,                           \
	      "A variable leaves this NIC out.",                                                   \
	      "Unset HMREG_VERBS_DEVICES, or name the NIC in it.")                                 \
	CAUSE("nic-library", 72, NIC, REFUSAL(NIC_LIBRARY), SHOW_RDMA,                             \
	      "The libraries of rdma-core are missing, or cannot be used.",                        \
	      "Install them (Debian: libibverbs1, librdmacm1, ibverbs-providers), and take other " \
	      "copies out of LD_LIBRARY_PATH.")                                                    \
	CAUSE("nic-module", 73, NIC, REFUSAL(NIC_MODULE), SHOW_RDMA,                               \
	      "The kernel has the NIC, but gives programs no access to it.",                       \
	      "Load the module: modprobe ib_uverbs.")                                              \
	CAUSE("nic-file", 74, NIC, REFUSAL(NIC_FILE), SHOW_RDMA,                                   \
	      "The NIC's file in /dev/infiniband is not there.",                                   \
	      "Load the module ib_uverbs; in a container, pass /dev/infiniband in.")               \
	CAUSE("nic-permission", 75, NIC, REFUSAL(NIC_PERMISSION), SHOW_RDMA,                       \
	      "This user may not open the NIC's file in /dev/infiniband.",                         \
	      "Give the file mode 0666 (rdma-core's udev rules do), or let the container's list "  \
	      "of devices have it.")                                                               \
	CAUSE("nic-provider", 76, NIC, REFUSAL(NIC_PROVIDER), SHOW_RDMA,                           \
	      "The kernel has the NIC, but libibverbs has no provider for it.",                    \
	      "Install the providers (Debian: ibverbs-providers); in a container, those of the "   \
	      "same release as libibverbs.")                                                       \
	CAUSE("nic-no-answer", 78, NIC, REFUSAL(NIC_NO_ANSWER), SHOW_RDMA,                         \
	      "The NIC cannot be opened, or does not say what it is.",                             \
	      "Look at dmesg: its firmware may have stopped.  Reload its driver.")                 \
	CAUSE("nic-port-down", 79, NIC, REFUSAL(NIC_PORT_DOWN), SHOW_RDMA,                         \
	      "The NIC's port is down.",                                                           \
	      "Set its network interface up (ip link), look at the cable; InfiniBand needs a "     \
	      "subnet manager that runs.")                                                         \
	CAUSE("nic-no-port", 80, NIC, REFUSAL(NIC_NO_PORT), SHOW_RDMA,                             \
	      "The NIC has no port of this number.",                                               \
	      "Ports count from 1: NAME is port 1, NAME:2 the second.")                            \
	CAUSE("nic-files", 85, NIC, REFUSAL(NIC_FILES), SHOW_LIMITS,                               \
	      "The NIC cannot be opened, since too many files are open.",                          \
	      "Raise the limit: ulimit -n, LimitNOFILE= of the service.")                          \
	CAUSE("nic-domain", 86, NIC, REFUSAL(NIC_PD), SHOW_NIC | SHOW_LIMITS,                      \
	      "The NIC gives no protection domain.",                                               \
	      "Its table of them is full, or kernel memory short: end programs that hold many "    \
	      "(`rdma resource' counts them).")                                                    \
	CAUSE("nic-gone", 87, NIC, REFUSAL(NIC_GONE), SHOW_NIC,                                    \
	      "The NIC does not answer any more: it was removed, reset, or has failed.",           \
	      "Look at dmesg.  Programs must be started anew after the NIC is back.")              \
	/* ---- the way from the memory to the NIC ---- */                                         \
	CAUSE("export-old", 50, EXPORT, REFUSAL(EXPORT_OLD), SHOW_DRIVER | SHOW_DEVICE | SHOW_PEER, \
	      "The driver is older than dma-bufs, and no kernel module for peer memory helps.",    \
	      "Update the vendor's driver, or load its module for peer memory.")                   \
	CAUSE("export-unsupported", 51, EXPORT, REFUSAL(EXPORT_UNSUPPORTED),                       \
	      SHOW_DRIVER | SHOW_DEVICE | SHOW_PEER,                                               \
	      "The device's driver says that it exports no dma-bufs, and no kernel module for "    \
	      "peer memory helps.",                                                                \
	      "Update the vendor's driver and the kernel (Linux 5.12 or later), or load the "      \
	      "vendor's module for peer memory.")                                                  \
	CAUSE("export-refused", 52, EXPORT, REFUSAL(EXPORT_REFUSED),                               \
	      SHOW_DRIVER | SHOW_DEVICE | SHOW_MEMORY | SHOW_PEER,                                 \
	      "The driver refuses to export this memory as a dma-buf.",                            \
	      "Allocate it another way: plain device memory exports where pools, graphics and "    \
	      "imported memory do not.  Or load the vendor's module for peer memory.")             \
	CAUSE("export-failed", 53, EXPORT, REFUSAL(EXPORT_FAILED),                                 \
	      SHOW_DRIVER | SHOW_DEVICE | SHOW_MEMORY,                                             \
	      "The driver's export call failed.",                                                  \
	      "The evidence has the call and its error; look at dmesg.  An error that is no refusal "     \
	      "points to a device that is lost.")                                                  \
	CAUSE("p2p-off", 54, EXPORT, REFUSAL(P2P_OFF), 0,                                          \
	      "The variable FI_HMEM_DISABLE_P2P forbids that NICs reach device memory.",           \
	      "Unset it, unless somebody set it since peers cannot reach each other here.")        \
	CAUSE("no-way", 55, EXPORT, REFUSAL(NO_WAY), SHOW_NIC | SHOW_PEER,                         \
	      "The NIC imports no dma-bufs, and no kernel module for peer memory is loaded.",      \
	      "Use a NIC whose driver imports dma-bufs (mlx5, irdma, efa, bnxt_re; Linux 5.12 "    \
	      "or later), or load the vendor's module for peer memory.")                           \
	CAUSE("import-rights", 116, IMPORT, REFUSAL(DMABUF_RIGHTS), SHOW_NIC | SHOW_DRIVER,        \
	      "The dma-buf does not grant the rights that were asked for.",                        \
	      "The driver exports it for reading alone: register without rights that write.")      \
	CAUSE("import-no-room", 118, IMPORT, REFUSAL(DMABUF_NO_ROOM),                              \
	      SHOW_DEVICE | SHOW_NIC | SHOW_PATH,                                                  \
	      "There is no room for the dma-buf: the device's PCI window (BAR), IOMMU space or "   \
	      "the NIC's translation entries are used up.",                                        \
	      "Enable a large window in the firmware (Resizable BAR, Above 4G decoding); "         \
	      "register fewer or smaller regions.")                                                \
	CAUSE("import-refused", 119, IMPORT, REFUSAL(DMABUF_REFUSED),                              \
	      SHOW_DEVICE | SHOW_NIC | SHOW_PATH,                                                  \
	      "Device and NIC do not agree on this dma-buf: peer-to-peer is blocked, or the "      \
	      "exporter takes no such importer.",                                                  \
	      "Switch ACS off on the bridges between the two, try iommu=pt on the kernel's "       \
	      "command line, use a NIC below the same switch (`hmreg-info' shows the path).")      \
	/* ---- registration ---- */                                                               \
	CAUSE("memlock", 100, REGISTRATION, REFUSAL(MEMLOCK), SHOW_LIMITS,                         \
	      "The limit of locked memory is reached.",                                            \
	      "Raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of the service, memlock in "   \
	      "/etc/security/limits.conf, --ulimit memlock=-1 of a container.")                    \
	CAUSE("memlock-zero", 101, REGISTRATION, REFUSAL(MEMLOCK_ZERO), SHOW_LIMITS,               \
	      "The limit of locked memory is 0, so that nothing may be pinned.",                   \
	      "Raise it: ulimit -l unlimited, LimitMEMLOCK=infinity of the service.")              \
	CAUSE("regions-full", 102, REGISTRATION, REFUSAL(REGIONS_FULL), SHOW_NIC,                  \
	      "The NIC's table of regions is full.",                                               \
	      "Close regions, or use few large ones and sub-MRs of them; `rdma resource' counts "  \
	      "what other programs hold.")                                                         \
	CAUSE("kernel-memory", 103, REGISTRATION, REFUSAL(NIC_MEMORY), SHOW_LIMITS | SHOW_NIC,     \
	      "The kernel has no memory for the region, or the NIC no translation entries.",       \
	      "Free memory, register less, use huge pages (fewer entries); see dmesg.")            \
	CAUSE("nic-keys", 104, REGISTRATION, REFUSAL(NIC_KEYS), SHOW_NIC,                          \
	      "The NIC has no keys or translation entries left.",                                  \
	      "Close regions, use huge pages (fewer entries), or raise the driver's limit of "     \
	      "them (mlx4: log_num_mtt; others: firmware).")                                       \
	CAUSE("cgroup", 105, REGISTRATION, REFUSAL(CGROUP), SHOW_NIC,                              \
	      "The control group's limit of RDMA objects is reached.",                             \
	      "Raise rdma.max of this control group; rdma.current shows what is used.")            \
	CAUSE("open-files", 106, REGISTRATION, REFUSAL(OPEN_FILES), SHOW_LIMITS,                   \
	      "Too many files are open.",                                                          \
	      "Raise the limit: ulimit -n, LimitNOFILE= of the service.")                          \
	CAUSE("forbidden", 107, REGISTRATION, REFUSAL(FORBIDDEN), SHOW_LIMITS,                     \
	      "The kernel forbids the registration to this process.",                              \
	      "Look for a seccomp filter or a security module: strace(1) shows the call, the "     \
	      "audit log who refused it.")                                                         \
	CAUSE("too-long", 108, REGISTRATION, REFUSAL(TOO_LONG), SHOW_NIC,                          \
	      "The range is longer than one region of the NIC can be, and it has no keys over "    \
	      "several regions.",                                                                  \
	      "Register pieces of at most the NIC's limit; if the limit is odd, see whether "      \
	      "HMREG_VERBS_MAX_MR_SIZE is set.")                                                   \
	CAUSE("rights", 109, REGISTRATION, REFUSAL(RIGHTS), SHOW_NIC,                              \
	      "The NIC or its driver lacks what the access rights need.",                          \
	      "Register without the right that it lacks: peers' access, atomics, on-demand "       \
	      "paging (`hmreg-info NIC' shows which it has).")                                     \
	CAUSE("range-refused", 111, REGISTRATION, REFUSAL(RANGE_REFUSED), SHOW_NIC | SHOW_MEMORY,  \
	      "The NIC refuses this range or these rights.",                                       \
	      "Try a smaller --size, then the kind `host': what changes the answer is the cause; " \
	      "dmesg may name it.")                                                                \
	/* ---- transfer ---- */                                                                   \
	CAUSE("no-address", 81, TRANSFER, REFUSAL(NIC_NO_ADDRESS), SHOW_NIC,                       \
	      "The memory registers, but the NIC's port has no IP address for endpoints.",         \
	      "Give its network interface one (ip addr add), not a loopback address.  Programs "   \
	      "with queue pairs of their own need none.")                                          \
	CAUSE("no-connections", 82, TRANSFER, REFUSAL(NIC_NO_CONNECTIONS), SHOW_NIC,               \
	      "The memory registers, but the NIC has no reliable connections for endpoints.",      \
	      "Use its own kind of queue pairs over the regions, or another NIC.")                 \
	CAUSE("cm-broken", 83, TRANSFER, REFUSAL(NIC_CM), SHOW_NIC,                                \
	      "The memory registers, but connections cannot be made: librdmacm does not work.",    \
	      "Load the module rdma_ucm; in a container, pass /dev/infiniband/rdma_cm in.")        \
	CAUSE("cm-permission", 84, TRANSFER, REFUSAL(NIC_CM_PERMISSION), SHOW_NIC,                 \
	      "The memory registers, but this user may not open /dev/infiniband/rdma_cm.",         \
	      "Give the file mode 0666 (rdma-core's udev rules do).")                              \
	CAUSE("no-endpoint", 88, TRANSFER, NONE, SHOW_NIC | SHOW_LIMITS,                           \
	      "The memory registers, but an endpoint cannot be made.",                             \
	      "The evidence has the call that failed: queues or queue pairs of the NIC may be used up "    \
	      "(`rdma resource' counts them).")                                                    \
	CAUSE("remote-access", 60, TRANSFER, ERROR(REMOTE_ACCESS), SHOW_NIC,                       \
	      "The target's NIC refused the key, the range or the right of a region that it had "  \
	      "registered.",                                                                       \
	      "The driver hands out keys that do not work: update it and the firmware; this pair " \
	      "of memory and NIC cannot be used.")                                                 \
	CAUSE("local-key", 59, TRANSFER, ERROR(LOCAL_REGION), SHOW_NIC,                            \
	      "The NIC refused the local key of a buffer that it had registered.",                 \
	      "The driver hands out keys that do not work: update it and the firmware.")           \
	CAUSE("unreachable", 58, TRANSFER, ERROR(PEER_GONE), SHOW_NIC,                             \
	      "The NIC finds no way to its own address.",                                          \
	      "Is the address still on its network interface (ip addr), and no firewall between?  " \
	      "RoCE: port 4791 of UDP; `rping' shows whether librdmacm connects at all.")          \
	CAUSE("peer-lost", 61, TRANSFER, ERROR(PEER_LOST), SHOW_NIC,                               \
	      "The two ends did not reach each other, or stopped answering.",                      \
	      "Does the NIC reach its own address (ping, a firewall)?  RoCE: are the GIDs of one " \
	      "kind, and the port's network lossless?")                                            \
	CAUSE("transport", 62, TRANSFER, ERROR(TRANSPORT), SHOW_NIC | SHOW_PATH,                   \
	      "The NIC reports a failed transfer.",                                                \
	      "With device memory: access control or the IOMMU keeps the NIC from the device; "    \
	      "switch ACS off on the bridges between, try iommu=pt.  With host memory: dmesg.")    \
	CAUSE("device-copy", 63, TRANSFER, ERROR(MEMORY), SHOW_DRIVER | SHOW_DEVICE,               \
	      "The driver of the device's memory failed to copy.",                                 \
	      "The evidence has the call and its error; look at dmesg.")                                  \
	CAUSE("data-lost", 64, TRANSFER, NONE, SHOW_DEVICE | SHOW_NIC | SHOW_PATH,                 \
	      "A write is said to be done, but the bytes are not in the memory.",                  \
	      "Do not use this pair: PCI writes go astray or are not seen.  Switch ACS off, try "  \
	      "iommu=pt, or keep NICs from devices by FI_HMEM_DISABLE_P2P=1.")                     \
	CAUSE("data-astray", 65, TRANSFER, NONE, SHOW_DEVICE | SHOW_NIC | SHOW_PATH,               \
	      "A write changed bytes outside of the region.",                                      \
	      "Do not use this pair: the driver gives a wrong offset or extent.  Update the "      \
	      "drivers of both, and please report it.")                                            \
	CAUSE("close-refused", 67, CLOSE, REFUSAL(NIC_BUSY), SHOW_NIC,                             \
	      "All works, but the driver refuses to end a region.",                                \
	      "Something of the program still uses it: memory windows, work requests under way.  " \
	      "Else look at dmesg.")

/* What helps with one interface rather than the remedy above: REMEDY(id, interface, remedy). */
#define CHECK_REMEDIES(REMEDY)                                                                     \
	REMEDY("driver-absent", FI_HMEM_CUDA,                                                      \
	       "Install the NVIDIA driver's user library (Debian: libcuda1); in a container, pass " \
	       "the GPUs and the driver in (--gpus all).")                                         \
	REMEDY("driver-absent", FI_HMEM_ROCR,                                                      \
	       "Install the ROCm runtime (Debian: libhsa-runtime64-1), or add its folder "         \
	       "(/opt/rocm/lib) to LD_LIBRARY_PATH.")                                              \
	REMEDY("driver-absent", FI_HMEM_ZE,                                                        \
	       "Install the Level Zero loader and a driver for it (Debian: libze1, "               \
	       "intel-level-zero-gpu).")                                                           \
	REMEDY("driver-absent", FI_HMEM_NEURON,                                                    \
	       "Install the Neuron runtime (aws-neuronx-runtime-lib), and add /opt/aws/neuron/lib " \
	       "to LD_LIBRARY_PATH.")                                                              \
	REMEDY("driver-absent", FI_HMEM_SYNAPSEAI,                                                 \
	       "Install the SynapseAI runtime (habanalabs-graph), and add its folder to "          \
	       "LD_LIBRARY_PATH.")                                                                 \
	REMEDY("module-absent", FI_HMEM_CUDA,                                                      \
	       "modprobe nvidia; if there is none, install the NVIDIA kernel driver for this "     \
	       "kernel (Debian: nvidia-open-kernel-dkms).  In a container, load it on the host.")  \
	REMEDY("module-absent", FI_HMEM_ROCR,                                                      \
	       "modprobe amdgpu.  In a container, load it on the host, and pass /dev/kfd and "     \
	       "/dev/dri in.")                                                                     \
	REMEDY("module-absent", FI_HMEM_NEURON, "modprobe neuron (package aws-neuronx-dkms).")     \
	REMEDY("module-absent", FI_HMEM_SYNAPSEAI,                                                 \
	       "modprobe habanalabs (package habanalabs-dkms).")                                   \
	REMEDY("device-permission", FI_HMEM_CUDA,                                                  \
	       "Give the user /dev/nvidia0 and the other /dev/nvidia* (nvidia-modprobe makes "     \
	       "them); in a container, pass them in with their permissions.")                      \
	REMEDY("device-permission", FI_HMEM_ROCR,                                                  \
	       "Add the user to the groups render and video, which may open /dev/kfd and "         \
	       "/dev/dri/renderD*; in a container, pass these in.")                                \
	REMEDY("export-old", FI_HMEM_CUDA,                                                         \
	       "Update the NVIDIA driver to release 515 or later with its open kernel modules, or " \
	       "modprobe nvidia-peermem.")                                                         \
	REMEDY("export-old", FI_HMEM_ROCR, "Update ROCm to 5.6 or later.")                         \
	REMEDY("export-unsupported", FI_HMEM_CUDA,                                                 \
	       "Install the open kernel modules of the NVIDIA driver (release 515 or later; "      \
	       "Turing or newer GPUs) on Linux 5.12 or later, or modprobe nvidia-peermem.")        \
	REMEDY("export-unsupported", FI_HMEM_ROCR,                                                 \
	       "Use an amdgpu driver that exports dma-bufs (Linux 6.4, or ROCm's own module), with " \
	       "CONFIG_PCI_P2PDMA and CONFIG_DMABUF_MOVE_NOTIFY.")                                 \
	REMEDY("export-refused", FI_HMEM_CUDA,                                                     \
	       "Allocate by cuMemAlloc or cudaMalloc, or cuMemCreate with gpuDirectRDMACapable; "  \
	       "or modprobe nvidia-peermem.")                                                      \
	REMEDY("import-no-room", FI_HMEM_CUDA,                                                     \
	       "`nvidia-smi -q -d MEMORY' shows BAR1: enable a large window in the firmware "      \
	       "(Resizable BAR, Above 4G decoding), or register less.")
/* clang-format on */
