/* Amounts of devices: counters and capacities. */
#ifndef MOORAGE_DEVICES_H
#define MOORAGE_DEVICES_H

/* In units of 10^-9, the precision of quantities: exact up to 10^27. */
typedef __int128 mr_amount;

#endif
