/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of the registration cache (core/mr/cache.h) for spin: one entry, threads that look it up, one that
 * registers, memory that changes, eviction and reaping.  The entry is used for several registrations.
 *
 * Stores of a holder's count may stay in a store buffer until the thread's next atomic operation, or a
 * barrier of somebody else's: as far as that, this is the memory order of the machine, and else sequentially
 * consistent, which the atomic operations of the rest are.
 *
 * Checked: whoever uses a registration uses one that is registered, is of the entry he holds, and has pages no
 * older than those at the time he asked; none ends in use; none is lost.
 *
 * Each of these leaves one rule out, and is to be found faulty:
 *   NO_RECHECK  the state is not looked at again after holding
 *   NO_BARRIER  the sum is taken without a barrier
 *   NO_CHANGES  a registration does not look whether its range is changing
 *   NO_DOOMED   a change leaves what is being registered alone
 *   NO_BEGIN    a change is told when it is over only
 *   NO_GENERATION  the state does not tell one use of the entry from another
 *   NO_AGAIN    what is killed while it is leaving, and held, is not put in the list of dead ones
 */

#ifndef HOLDERS
#define HOLDERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* of each process; registrations are one more */
#endif
#define THREADS	  (HOLDERS + 1)
#define REGISTRAR HOLDERS /* as a thread */

#define FREE    0
#define PENDING 1
#define DOOMED  2
#define LIVE    3
#define LEAVING 4
#define DEAD    5

/* The entry. */
byte state = FREE, generation = 0;
bool word = false;	 /* in the table */
bool registered = false; /* with the NIC */
byte pages = 0;		 /* the memory's age, when it was registered */
byte range = 0;		 /* which it is: 0 is the one that is looked up */
bool dead = false;	 /* in the list of dead ones */

byte memory = 0; /* its age */
bool changing = false;

short count[THREADS];
byte buffer[THREADS]; /* stores to come: 1: + 1; 2: + 1, then - 1; 3: - 1 */
bool using[THREADS];
byte ended = 0; /* processes that are through */

/* The first of them. */
inline leave(t)
{
	if
	:: buffer[t] == 1 -> count[t]++; buffer[t] = 0
	:: buffer[t] == 2 -> count[t]++; buffer[t] = 3
	:: buffer[t] == 3 -> count[t]--; buffer[t] = 0
	:: else
	fi
}

/* All of them; 2 is nothing, in sum. */
inline flush(t)
{
	d_step {
		if
		:: buffer[t] == 2 -> buffer[t] = 0
		:: else -> leave(t)
		fi
	}
}

inline hold(t)
{
	d_step {
		flush(t);
		buffer[t] = 1
	}
}

inline drop(t)
{
	d_step {
		if
		:: buffer[t] == 1 -> buffer[t] = 2
		:: else -> buffer[t] = 3
		fi
	}
}

/* membarrier(2) */
inline barrier()
{
#ifndef NO_BARRIER
	flush(0);
	flush(1);
#if HOLDERS > 1
	flush(2)
#endif
#else
	skip
#endif
}

inline sum_up(sum)
{
	sum = count[0];
	sum = sum + count[1];
#if HOLDERS > 1
	sum = sum + count[2]
#endif
}

/* The registration ends, nobody uses it, and the entry is another's. */
inline end_entry()
{
	atomic {
		assert(!using[0] && !using[1] && !using[THREADS - 1]);
		assert(registered && state == DEAD);
		registered = false
	};
	word = false;
	d_step {
		state = FREE;
#ifndef NO_GENERATION
		generation++
#endif
	}
}

inline use(t, was)
{
	atomic {
		assert(registered && generation == was);
		assert(state != FREE && state != PENDING);
		using[t] = false
	}
}

/* Stores leave the buffer whenever they like. */
active proctype buffers()
{
end:
	do
	:: d_step { buffer[0] -> leave(0) }
	:: d_step { buffer[1] -> leave(1) }
#if HOLDERS > 1
	:: d_step { buffer[2] -> leave(2) }
#endif
	od
}

proctype holder(byte t)
{
	byte round = 0, asked = 0, was = 0;

	do
	:: round == ROUNDS -> break
	:: else ->
		atomic { round++; asked = memory };
		atomic {
			if
			:: !word -> goto next
			:: else
			fi
		};
		atomic {
			was = generation;
			if
			:: state != LIVE -> goto next
			:: else
			fi
		};
		atomic {
			if
			:: range != 0 -> goto next
			:: else
			fi
		};
		hold(t);
		atomic {
#ifndef NO_RECHECK
			using[t] = state == LIVE && generation == was;
#else
			using[t] = true;
#endif
			if
			:: using[t] -> assert(range == 0 && pages >= asked)
			:: else -> drop(t); goto next
			fi
		};
		use(t, was);
		drop(t);
next:
		atomic { asked = 0; was = 0 }
	od;
	ended++
}

proctype registrar()
{
	byte round = 0, was = 0;

	do
	:: round > ROUNDS -> break
	:: else ->
		atomic {
			round++;
			was = generation;
			if
			:: state == FREE -> state = PENDING; range = round - 1
			:: else -> goto next
			fi
		};
		word = true;
		d_step { hold(REGISTRAR); flush(REGISTRAR) }; /* a fence */
#ifndef NO_CHANGES
		d_step {
			if
			:: changing && state == PENDING -> state = DOOMED
			:: else
			fi
		};
#endif
		d_step { pages = memory; registered = true };
		atomic {
			using[REGISTRAR] = true;
			if
			:: state == PENDING -> state = LIVE; goto live
			:: else -> state = DEAD
			fi
		};
		dead = true;
live:
		use(REGISTRAR, was);
		drop(REGISTRAR);
next:
		was = 0
	od;
	ended++
}

inline kill_entry()
{
	atomic {
		if
		:: !word -> goto told
		:: else
		fi
	};
	atomic {
		if
		:: state == LIVE -> state = DEAD
		:: state == LEAVING -> state = DEAD; goto told /* who evicts finds out */
#ifndef NO_DOOMED
		:: state == PENDING -> state = DOOMED; goto told
#endif
		:: else -> goto told
		fi
	};
	dead = true
}

proctype change()
{
	byte round = 0;

	do
	:: round == ROUNDS -> break
	:: else ->
#ifdef NO_BEGIN
		memory++;
#endif
		d_step { round++; changing = true };
		kill_entry();
told:
#ifndef NO_BEGIN
		memory++;
#endif
		changing = false
	od;
	ended++
}

proctype evictor()
{
	byte round = 0;
	short sum = 0;

	do
	:: round == ROUNDS -> break
	:: else ->
		atomic {
			round++;
			if
			:: state == LIVE -> state = LEAVING
			:: else -> goto next
			fi
		};
		barrier();
		sum_up(sum);
		if
		:: sum == 0 ->
			state = DEAD;
			end_entry()
		:: else ->
			atomic {
				if
				:: state == LEAVING -> state = LIVE; goto next
				:: else
				fi
			};
#ifndef NO_AGAIN
			dead = true
#else
			skip
#endif
		fi;
next:
		sum = 0
	od;
	ended++
}

proctype reaper()
{
	byte round = 0;
	short sum = 0;

	do
	:: round == ROUNDS -> break
	:: else ->
		atomic {
			round++;
			if
			:: dead -> dead = false
			:: else -> goto next
			fi
		};
		barrier();
		sum_up(sum);
		if
		:: sum == 0 -> end_entry()
		:: else -> dead = true
		fi;
next:
		sum = 0
	od;
	ended++
}

/* When all is over, nothing has died that nobody would find. */
active proctype after()
{
	atomic {
		ended == HOLDERS + 4;
		assert(state != DOOMED && state != PENDING && state != LEAVING);
		assert(state != DEAD || dead);
		assert(!registered || word)
	}
}

init
{
	atomic {
		run holder(0);
#if HOLDERS > 1
		run holder(1);
#endif
		run registrar();
		run change();
		run evictor();
		run reaper()
	}
}
