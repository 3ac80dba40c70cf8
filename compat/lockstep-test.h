/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test knobs: module parameters that make a fault of our own on purpose, or switch
 * a mend off, so that the labs can show that they find what they claim to find.
 *
 * They exist only where LOCKSTEP_TEST is defined, which tests/lab/modules does for
 * the kernels of the sim lab and for nothing that is installed anywhere. Elsewhere
 * test_knob() is the constant 0, and the parameter doesn't exist.
 *
 *	TEST_KNOB(bool, trust_device, "a leg is told by its device's number alone");
 *	...
 *	if (test_knob(trust_device))
 *
 * TEST_KNOB() belongs into the one .c file that asks: the parameter is
 * test_trust_device of that file's module, written at load time or later.
 */
#ifndef LOCKSTEP_TEST_H
#define LOCKSTEP_TEST_H

#include <linux/moduleparam.h>

#ifdef LOCKSTEP_TEST
#define TEST_KNOB(type, name, what)					\
	static type test_knob_##name;					\
	module_param_named(test_##name, test_knob_##name, type, 0600);	\
	MODULE_PARM_DESC(test_##name, "for tests only: " what)
#define test_knob(name)		READ_ONCE(test_knob_##name)
#else
#define TEST_KNOB(type, name, what)	static_assert(1)
#define test_knob(name)			0
#endif

#endif
