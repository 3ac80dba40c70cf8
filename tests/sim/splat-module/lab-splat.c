// SPDX-License-Identifier: GPL-2.0-only
/*
 * lab-splat: one deliberate fault for each insmod, so that the sim lab's own
 * tests can show that a fault of that kind fails a run. Built for the lab's
 * kernels only; the runner never loads it by itself.
 *
 *   insmod lab-splat.ko kind=warn|uaf|oob|abba|sleep|hang|race
 *
 * The load always fails with ECANCELED, so nothing stays behind.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *kind = "";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, "which fault");

static DEFINE_MUTEX(lock_a);
static DEFINE_MUTEX(lock_b);
static DEFINE_SPINLOCK(spin);
static DECLARE_COMPLETION(never);

/* Hidden from the compiler, which would see through the faults. */
static noinline unsigned char peek(const unsigned char *p, size_t at)
{
	OPTIMIZER_HIDE_VAR(p);
	return READ_ONCE(p[at]);
}

static int memory_fault(bool after_free)
{
	unsigned char *p = kzalloc(64, GFP_KERNEL);
	unsigned char seen;

	if (!p)
		return -ENOMEM;
	if (after_free) {
		kfree(p);
		seen = peek(p, 8);
	} else {
		seen = peek(p, 64);
		kfree(p);
	}
	pr_info("lab-splat: read %u\n", seen);
	return 0;
}

static void lock_order(void)
{
	mutex_lock(&lock_a);
	mutex_lock(&lock_b);
	mutex_unlock(&lock_b);
	mutex_unlock(&lock_a);

	mutex_lock(&lock_b);
	mutex_lock(&lock_a);
	mutex_unlock(&lock_a);
	mutex_unlock(&lock_b);
}

static void sleep_in_atomic(void)
{
	spin_lock(&spin);
	might_sleep();		/* as kmalloc() and mutex_lock() ask; usleep_range() doesn't */
	usleep_range(10, 20);
	spin_unlock(&spin);
}

static unsigned long shared;

static int count(void *unused)
{
	while (!kthread_should_stop()) {
		shared++;
		usleep_range(10, 20);
	}
	return 0;
}

/* Of two threads, which no lock orders. */
static void race(void)
{
	struct task_struct *threads[2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(threads); i++)
		threads[i] = kthread_run(count, NULL, "lab-splat/%u", i);
	msleep(5000);
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		if (!IS_ERR(threads[i]))
			kthread_stop(threads[i]);
	pr_info("lab-splat: counted to %lu\n", shared);
}

static int __init lab_splat_init(void)
{
	if (!strcmp(kind, "warn"))
		WARN(1, "lab-splat on purpose\n");
	else if (!strcmp(kind, "uaf") || !strcmp(kind, "oob"))
		memory_fault(!strcmp(kind, "uaf"));
	else if (!strcmp(kind, "abba"))
		lock_order();
	else if (!strcmp(kind, "sleep"))
		sleep_in_atomic();
	else if (!strcmp(kind, "hang"))
		wait_for_completion_timeout(&never, 300 * HZ);
	else if (!strcmp(kind, "race"))
		race();
	else
		return -EINVAL;
	return -ECANCELED;
}

static void __exit lab_splat_exit(void)
{
}

module_init(lab_splat_init);
module_exit(lab_splat_exit);
MODULE_DESCRIPTION("deliberate kernel faults for the sim lab's own tests");
MODULE_LICENSE("GPL");
