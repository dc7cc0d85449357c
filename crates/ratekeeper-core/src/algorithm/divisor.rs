//! Division by a number that a limit knows beforehand, as a multiplication.

/// A divisor with its reciprocal, prepared once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Divisor {
    divisor: u64,
    /// The largest 64-bit number over the divisor, rounded down.
    reciprocal: u64,
}

impl Divisor {
    /// Prepares a divisor other than zero.
    pub(crate) fn new(divisor: u64) -> Self {
        Self {
            divisor,
            reciprocal: u64::MAX / divisor.max(1),
        }
    }

    #[inline]
    pub(crate) fn get(self) -> u64 {
        self.divisor
    }

    #[inline]
    pub(crate) fn wide(self) -> u128 {
        self.divisor.into()
    }

    /// Returns quotient and rest.
    #[inline]
    pub(crate) fn divide(self, number: u128) -> (u128, u128) {
        match u64::try_from(number) {
            Ok(number) => {
                let (quotient, rest) = self.divide_narrow(number);
                (quotient.into(), rest.into())
            }
            Err(_) => self.divide_wide(number),
        }
    }

    /// With the reciprocal r and the divisor d, 2^64 / d - r is at most 1. So for a number n below
    /// 2^64, n·r / 2^64 lies less than 1 below n / d, and rounding it down misses the quotient by
    /// at most one.
    #[inline]
    fn divide_narrow(self, number: u64) -> (u64, u64) {
        let product = u128::from(number) * u128::from(self.reciprocal);
        let estimate = (product >> 64) as u64;
        let rest = number - estimate * self.divisor;
        if rest >= self.divisor {
            (estimate + 1, rest - self.divisor)
        } else {
            (estimate, rest)
        }
    }

    #[cold]
    #[inline(never)]
    fn divide_wide(self, number: u128) -> (u128, u128) {
        (number / self.wide(), number % self.wide())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotient_and_rest_equal_those_of_the_division() {
        let edges = [1, 2, 3, 5, 7, 10, 1_000, 0xffff_ffff, 1 << 32, 1 << 63];
        let near = |edge: u64| [edge.wrapping_sub(1), edge, edge.wrapping_add(1)];
        let numbers: Vec<u64> = (0..200)
            .chain(edges.into_iter().flat_map(near))
            .chain(edges.into_iter().map(|edge| u64::MAX / edge))
            .chain(edges.into_iter().map(|edge| u64::MAX - edge))
            .collect();
        for divisor in numbers.iter().copied().filter(|divisor| *divisor > 0) {
            for number in &numbers {
                let expected = (number / divisor, number % divisor);
                let divisor = Divisor::new(divisor);
                assert_eq!(
                    divisor.divide_narrow(*number),
                    expected,
                    "{number} / {divisor:?}"
                );
            }
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_divided_as_well() {
        let number = u128::from(u64::MAX) * 1_000 + 17;
        let divisor = Divisor::new(999);
        assert_eq!(divisor.divide(number), (number / 999, number % 999));
        assert_eq!(divisor.divide(1_000), (1, 1));
    }
}
