/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0
 *
 * Follows TCP Nice's rules through acknowledgements, as nice.bpf.c does, and prints the window and the threshold of slow start after each.
 * crates/live/src/bpf/rules.rs compares them with the simulator's.
 *
 * The first line of the standard input has the words of the parameters. Each further line is an acknowledgement: its clock and its RTT in microseconds; in 1/4096 of
 * a segment what it acknowledges, what has been delivered with it, what had been delivered when its newest segment left, and what is in flight after it;
 * whether the window limits sending; and the simulator's window and threshold before it, with which this program goes on, so that roundings do not add up.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef uint8_t u8;
typedef int32_t s32;

/* glibc has a macro of the same name. */
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

#include "../nice_rules.h"

static bool read_parameters(struct nice_parameters *conf)
{
	u32 *word = (u32 *)conf;

	for (size_t at = 0; at < sizeof(*conf) / sizeof(u32); at++)
		if (scanf("%u", &word[at]) != 1)
			return false;
	return true;
}

int main(void)
{
	struct nice_parameters conf;
	struct nice_account account = {0};
	struct nice_rules rules;
	u64 clock, end = 0;
	u32 rtt, acked, delivered, prior_delivered, in_flight, limited, window, ssthresh;

	if (!read_parameters(&conf))
		return 1;
	start_rules(&rules, conf.initial_window);
	while (scanf("%lu %u %u %u %u %u %u %u %u", &clock, &rtt, &acked, &delivered, &prior_delivered, &in_flight, &limited, &window, &ssthresh) == 9) {
		struct nice_sample sample = {.rtt = rtt, .segments = acked, .in_flight = delivered - prior_delivered};

		rules.window = window;
		rules.ssthresh = ssthresh;
		if (prior_delivered >= end) {
			judge(&rules, &account, &conf, conf.floor, clock, &sample, limited);
			start_round(&rules);
			end = delivered;
		}
		detect(&rules, &conf, clock, &sample);
		if (judge_early(&rules, &account, &conf, conf.floor, clock, &sample)) {
			start_round(&rules);
			end = delivered;
		}
		if (rules.window < NICE_BURST * NICE_ONE && !in_flight) {
			judge(&rules, &account, &conf, conf.floor, clock, &sample, limited);
			start_round(&rules);
		}
		/* As nice_cong_avoid. */
		if (limited && rules.window < rules.ssthresh)
			rules.window += at_most(acked, rules.ssthresh - rules.window);
		printf("%u %u\n", rules.window, rules.ssthresh);
	}
	return 0;
}
