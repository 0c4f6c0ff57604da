//! From a scenario's congestion control to the algorithm and its parameters.

use warpline_transport::cc::{
    AckCounting, Algorithm, BicParams, CubicParams, Hystart, LedbatParams, LedbatPlusPlusParams, LpParams,
    LpVariant, NiceParams, RenoParams, VegasEstimate, VegasParams, WestwoodParams,
};

use crate::scenario::{self, Cc, CcKind};

/// The algorithm that a scenario names, with its parameters.
pub(super) fn algorithm(cc: &Cc) -> Algorithm {
    match &cc.0 {
        CcKind::Custom { .. } => Algorithm::Reno(Default::default()),
        CcKind::Reno { counting } => {
            let mut params = RenoParams::default();
            params.slow_start.counting = ack_counting(*counting, params.slow_start.counting);
            Algorithm::Reno(params)
        }
        CcKind::Cubic { beta, c, fast_convergence, reno_friendly, hystart, catch_up } => {
            let mut params = CubicParams::default();
            params.beta = beta.unwrap_or(params.beta);
            params.c = c.unwrap_or(params.c);
            params.fast_convergence = fast_convergence.unwrap_or(params.fast_convergence);
            params.reno_friendly = reno_friendly.unwrap_or(params.reno_friendly);
            params.slow_start.hystart = match hystart {
                Some(scenario::Hystart::No) => Hystart::No,
                Some(scenario::Hystart::Linux) => Hystart::Linux,
                Some(scenario::Hystart::Rfc9406) => Hystart::Rfc9406,
                None => params.slow_start.hystart,
            };
            params.catch_up = catch_up.unwrap_or(params.catch_up);
            Algorithm::Cubic(params)
        }
        CcKind::Vegas { alpha, beta, gamma, counting, alternate_slow_start, estimate, decrease } => {
            let mut params = VegasParams::default();
            params.alpha = alpha.unwrap_or(params.alpha);
            params.beta = beta.unwrap_or(params.beta);
            params.gamma = gamma.unwrap_or(params.gamma);
            params.slow_start.counting = ack_counting(*counting, params.slow_start.counting);
            params.alternate_slow_start = alternate_slow_start.unwrap_or(params.alternate_slow_start);
            params.estimate = match estimate {
                Some(scenario::VegasEstimate::Paper) => VegasEstimate::Paper,
                Some(scenario::VegasEstimate::Linux) => VegasEstimate::Linux,
                None => params.estimate,
            };
            params.decrease = decrease.unwrap_or(params.decrease);
            Algorithm::Vegas(params)
        }
        CcKind::Bic { max_increment, smooth_part, beta, low_window, fast_convergence, ack_ratio } => {
            let mut params = BicParams::default();
            params.max_increment = max_increment.unwrap_or(params.max_increment);
            params.smooth_part = smooth_part.unwrap_or(params.smooth_part);
            params.beta = beta.unwrap_or(params.beta);
            params.low_window = low_window.unwrap_or(params.low_window);
            params.fast_convergence = fast_convergence.unwrap_or(params.fast_convergence);
            params.ack_ratio = ack_ratio.unwrap_or(params.ack_ratio);
            Algorithm::Bic(params)
        }
        CcKind::Westwood { tick } => {
            let mut params = WestwoodParams::default();
            params.tick = tick.map_or(params.tick, |time| time.0);
            Algorithm::Westwood(params)
        }
        CcKind::Ledbat { target, gain, allowed_increase, min_window, base_history } => {
            let mut params = LedbatParams::default();
            params.target = target.map_or(params.target, |time| time.0);
            params.gain = gain.unwrap_or(params.gain);
            params.allowed_increase = allowed_increase.unwrap_or(params.allowed_increase);
            params.min_window = min_window.unwrap_or(params.min_window);
            params.base_history = base_history.unwrap_or(params.base_history);
            Algorithm::Ledbat(params)
        }
        CcKind::LedbatPlusPlus { target, slow_down } => {
            let mut params = LedbatPlusPlusParams::default();
            params.target = target.map_or(params.target, |time| time.0);
            params.slow_down = slow_down.unwrap_or(params.slow_down);
            Algorithm::LedbatPlusPlus(params)
        }
        CcKind::Lp { threshold, inference, variant } => {
            let mut params = LpParams::default();
            params.threshold = threshold.unwrap_or(params.threshold);
            params.inference = inference.unwrap_or(params.inference);
            params.variant = match variant {
                Some(scenario::LpVariant::Linux) => LpVariant::Linux,
                Some(scenario::LpVariant::Paper) => LpVariant::Paper,
                None => params.variant,
            };
            Algorithm::Lp(params)
        }
        CcKind::Nice {
            variant,
            alpha,
            beta,
            threshold,
            fraction,
            decrease,
            growth,
            target,
            min_window,
            start,
            most_delay,
            own_packets,
            max_of_rounds,
            prompt,
            base_window,
        } => {
            let mut params = match variant {
                Some(scenario::NiceVariant::Paper) => NiceParams::paper(),
                Some(scenario::NiceVariant::Revised) | None => NiceParams::default(),
            };
            params.alpha = alpha.unwrap_or(params.alpha);
            params.beta = beta.unwrap_or(params.beta);
            params.threshold = threshold.unwrap_or(params.threshold);
            params.fraction = fraction.unwrap_or(params.fraction);
            params.decrease = decrease.unwrap_or(params.decrease);
            params.growth = growth.unwrap_or(params.growth);
            params.target = target.unwrap_or(params.target);
            params.floor = min_window.unwrap_or(params.floor);
            params.start = start.unwrap_or(params.start);
            params.most_delay = most_delay.map_or(params.most_delay, |time| time.0);
            params.own_packets = own_packets.unwrap_or(params.own_packets);
            params.max_of_rounds = max_of_rounds.unwrap_or(params.max_of_rounds);
            params.prompt = prompt.unwrap_or(params.prompt);
            params.base_window = base_window.map_or(params.base_window, |time| time.0);
            Algorithm::Nice(params)
        }
    }
}

fn ack_counting(counting: Option<scenario::AckCounting>, default: AckCounting) -> AckCounting {
    match counting {
        Some(scenario::AckCounting::Bytes) => AckCounting::Bytes,
        Some(scenario::AckCounting::Acks) => AckCounting::Acks,
        None => default,
    }
}
