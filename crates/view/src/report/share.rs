//! How many points of the page each connection gets.

/// Gives each its wish, and when that is more than `budget`, cuts the largest
/// wishes to one height so that the small ones stay whole.
pub fn share(budget: usize, wishes: &[usize]) -> Vec<usize> {
    let mut sorted = wishes.to_vec();
    sorted.sort_unstable();
    let mut left = budget;
    let mut height = usize::MAX;
    for (done, &wish) in sorted.iter().enumerate() {
        let fair = left / (sorted.len() - done);
        if wish > fair {
            height = fair;
            break;
        }
        left -= wish;
    }
    wishes.iter().map(|&wish| wish.min(height)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_that_fit_are_granted() {
        assert_eq!(share(100, &[10, 20, 70]), [10, 20, 70]);
    }

    #[test]
    fn the_largest_give_way() {
        assert_eq!(share(100, &[1000, 10, 500]), [45, 10, 45]);
    }
}
