//! Loss: independent, or in bursts by Gilbert's model with two states (Gilbert,
//! "Capacity of a burst-noise channel", 1960), every packet of the bad state lost.

use crate::random::Stream;

/// Decides for one packet after the other; the n-th decision depends on the seed and n alone.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// Probability that a packet after one that passed is lost.
    enter: f64,
    /// Probability that a packet after a lost one passes.
    leave: f64,
    bad: bool,
    random: Stream,
}

impl Loss {
    /// `burst`: mean number lost in a row; none: independent losses, which are the case
    /// `burst` = 1 / (1 - `share`).
    pub fn new(share: f64, burst: Option<f64>, mut random: Stream) -> Loss {
        let (enter, leave) = match burst {
            None => (share, 1.0 - share),
            Some(burst) => (share / (burst * (1.0 - share)), 1.0 / burst),
        };
        // Started in its stationary state, so that the share holds from the first packet on.
        let bad = random.chance(share);
        Loss { enter, leave, bad, random }
    }

    pub fn strikes(&mut self) -> bool {
        let turns = if self.bad { self.leave } else { self.enter };
        if self.random.chance(turns) {
            self.bad = !self.bad;
        }
        self.bad
    }
}

#[cfg(test)]
mod tests {
    use super::Loss;
    use crate::random::Stream;

    const PACKETS: usize = 500_000;

    /// Share lost, and mean number lost in a row.
    fn observed(share: f64, burst: Option<f64>) -> (f64, f64) {
        let mut loss = Loss::new(share, burst, Stream::new(1, "test"));
        let lost: Vec<bool> = (0..PACKETS).map(|_| loss.strikes()).collect();
        let total = lost.iter().filter(|lost| **lost).count();
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        (total as f64 / PACKETS as f64, total as f64 / bursts as f64)
    }

    #[test]
    fn independent_losses_keep_their_share() {
        for share in [0.002, 0.01, 0.3] {
            let (lost, in_a_row) = observed(share, None);
            assert!((lost / share - 1.0).abs() < 0.1, "{lost} of {share}");
            assert!((in_a_row * (1.0 - share) - 1.0).abs() < 0.05, "{in_a_row} in a row");
        }
    }

    #[test]
    fn bursts_keep_their_share_and_their_length() {
        let (lost, in_a_row) = observed(0.02, Some(4.0));
        assert!((lost / 0.02 - 1.0).abs() < 0.1, "{lost}");
        assert!((in_a_row / 4.0 - 1.0).abs() < 0.1, "{in_a_row}");
    }

    #[test]
    fn nothing_and_everything_can_be_lost() {
        assert_eq!(observed(0.0, None).0, 0.0);
        assert_eq!(observed(1.0, None).0, 1.0);
    }
}
