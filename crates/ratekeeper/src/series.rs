//! Counts over time in a bounded number of equal intervals, whatever the log's length.

/// The lengths of an interval in seconds. Each divides the next, so that intervals merge whole.
const WIDTHS: [i64; 15] = [
    1, 2, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800, 6_048_000,
];

/// How many intervals there are at most.
const MOST: i64 = 1_024;

/// Where the intervals lie; it grows as later seconds come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grid {
    /// Seconds of one interval; zero before the first second came.
    pub(crate) width: i64,
    /// The first interval, in intervals since the Unix epoch.
    first: i64,
    pub(crate) count: usize,
}

/// How to fold values that were collected on a grid before it grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    /// How many of the first merged interval's parts lie before the old first one.
    skip: usize,
    factor: usize,
}

impl Grid {
    /// Returns the interval of a second, which is not before the first one given. When the grid
    /// had to become coarser, all that was collected on it has to be folded first.
    pub(crate) fn place(&mut self, second: i64) -> (usize, Option<Fold>) {
        let mut fold = None;
        if self.width == 0 {
            *self = Self {
                width: 1,
                first: second,
                count: 1,
            };
        }
        let old = *self;
        let mut index = second.div_euclid(self.width) - self.first;
        while index >= MOST {
            let start = self.first * self.width;
            self.width = WIDTHS
                .into_iter()
                .find(|width| *width > self.width)
                .unwrap_or(self.width * 10);
            self.first = start.div_euclid(self.width);
            index = second.div_euclid(self.width) - self.first;
        }
        if self.width != old.width {
            let factor = self.width / old.width;
            let skip = old.first - self.first * factor;
            // Both lie below the factor times MOST.
            fold = Some(Fold {
                skip: usize::try_from(skip).unwrap_or(0),
                factor: usize::try_from(factor).unwrap_or(1),
            });
        }
        let index = usize::try_from(index).unwrap_or(0);
        self.count = fold
            .map_or(self.count, |fold| {
                (self.count + fold.skip).div_ceil(fold.factor)
            })
            .max(index + 1);
        (index, fold)
    }

    /// Returns the second that an interval begins with.
    pub(crate) fn start(&self, index: usize) -> i64 {
        (self.first + i64::try_from(index).unwrap_or(i64::MAX)) * self.width
    }
}

/// One value per interval of a grid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<u64>);

impl Series {
    pub(crate) fn fold(&mut self, fold: Fold, merge: impl Fn(u64, u64) -> u64) {
        let length = (self.0.len() + fold.skip).div_ceil(fold.factor);
        for index in 0..self.0.len() {
            let value = std::mem::take(&mut self.0[index]);
            let target = &mut self.0[(index + fold.skip) / fold.factor];
            *target = merge(*target, value);
        }
        self.0.truncate(length);
    }

    pub(crate) fn at(&mut self, index: usize) -> &mut u64 {
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        &mut self.0[index]
    }

    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_divides_the_next() {
        assert!(WIDTHS.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn counts_survive_growth_and_stay_in_their_intervals() {
        let seconds = [
            -7,
            -7,
            -3,
            0,
            5,
            900,
            1_050,
            1_051,
            40_000,
            40_001,
            9_000_000,
            3_000_000_000,
        ];
        let (mut grid, mut series) = (Grid::default(), Series::default());
        for (done, second) in seconds.into_iter().enumerate() {
            let (index, fold) = grid.place(second);
            if let Some(fold) = fold {
                series.fold(fold, |one, other| one + other);
            }
            *series.at(index) += 1;
            assert!(grid.count <= 1_024);
            for index in 0..grid.count {
                let start = grid.start(index);
                let expected = seconds[..=done]
                    .iter()
                    .filter(|second| (start..start + grid.width).contains(second));
                assert_eq!(
                    series.get(index),
                    expected.count() as u64,
                    "interval at {start} of {}",
                    grid.width
                );
            }
        }
    }
}
