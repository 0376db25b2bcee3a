//! Independent runs on all cores.

use std::{
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Calls a function for each seed, on all cores. Returns the results in the order of the seeds.
pub fn for_each_seed<T: Send>(seeds: &[u64], run: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = seeds.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while let Some((seed, result)) = seeds.iter().zip(&results).nth(next.fetch_add(1, Ordering::Relaxed)) {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(run(*seed));
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..cores.min(seeds.len()) {
            scope.spawn(work);
        }
    });
    let result = |result: Mutex<Option<T>>| result.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|own| result(own).expect("a panic of a run ends the scope")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_seeds() {
        let seeds: Vec<u64> = (0..100).rev().collect();
        assert_eq!(for_each_seed(&seeds, |seed| 2 * seed), seeds.iter().map(|seed| 2 * seed).collect::<Vec<_>>());
        assert!(for_each_seed(&[], |seed| seed).is_empty());
    }
}
