// SPDX-License-Identifier: GPL-2.0-only
#include "identity.h"

#include <linux/string.h>

#include "lockstep-test.h"
#include "mirror.h"

TEST_KNOB(bool, drain_by_device, "what was abandoned is looked for on the same block device only");

bool leg_same_device(const struct leg *a, const struct leg *b)
{
	return a->bdev && b->bdev && a->bdev->bd_dev == b->bdev->bd_dev;
}

bool identity_same_legs(const struct mirror *a, const struct mirror *b)
{
	return leg_same_device(&a->legs[LEG_LOCAL], &b->legs[LEG_LOCAL]) &&
	       leg_same_device(&a->legs[LEG_REMOTE], &b->legs[LEG_REMOTE]);
}

bool identity_share_device(const struct mirror *a, const struct mirror *b)
{
	enum leg_id i, j;

	for (i = LEG_LOCAL; i < LEGS; i++)
		for (j = LEG_LOCAL; j < LEGS; j++)
			if (leg_same_device(&a->legs[i], &b->legs[j]))
				return true;
	return false;
}

static bool same_mapped(const struct registered *a, const struct registered *b)
{
	if (*a->uuid || *b->uuid)
		return !strcmp(a->uuid, b->uuid);
	return *a->name && !strcmp(a->name, b->name);
}

bool identity_same_uuid(const struct mirror *a, enum leg_id i,
			const struct mirror *b, enum leg_id j)
{
	return a->meta && b->meta && a->registered.known[i] && b->registered.known[j] &&
	       !memcmp(a->registered.leg_uuid[i], b->registered.leg_uuid[j],
		       sizeof(a->registered.leg_uuid[i]));
}

bool identity_same_leg(const struct mirror *a, enum leg_id i,
		       const struct mirror *b, enum leg_id j)
{
	if (!a->legs[i].bdev || !b->legs[j].bdev)
		return false;
	if (leg_same_device(&a->legs[i], &b->legs[j]))
		return true;
	if (test_knob(drain_by_device))
		return false;
	if (a->meta && b->meta)
		return identity_same_uuid(a, i, b, j);
	return i == j && same_mapped(&a->registered, &b->registered);
}
