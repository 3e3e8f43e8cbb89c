//! Joins the two clusters of least cost until one is left.
//!
//! Each cluster i remembers its nearest among the clusters j > i. Merging can only make that entry
//! outdated, never too large: the merged cluster is compared with every other one, and clusters that
//! vanish were not nearer. So the smallest entry is a lower bound of all costs, and it is searched
//! again only if it is outdated. This is exact for any cost; it needs no property of Ward's.

use super::clusters::{Clusters, Cost};
use rayon::prelude::*;
use std::cmp::Ordering;

/// Clusters whose nearest ones are searched at once in the beginning: their mean directions stay in
/// the cache while all others are read.
const TILE: usize = 8;

/// Clusters that one task compares with a merged one.
const TASK: usize = 64;

/// One merge: the numbers of both clusters, the smaller first, and its cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub first: usize,
    pub second: usize,
    pub cost: f64,
}

/// The nearest of the later clusters.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    cost: Cost,
    other: usize,
    /// Whether `cost` is only a lower bound.
    is_outdated: bool,
}

impl Nearest {
    const NONE: Self = Nearest { cost: Cost::INFINITE, other: usize::MAX, is_outdated: false };

    /// Replaces it by another cluster if that is nearer; in a tie, the smaller number is.
    fn offer(&mut self, cost: Cost, other: usize) {
        if cost.compare(&self.cost).then(other.cmp(&self.other)) == Ordering::Less {
            *self = Nearest { cost, other, is_outdated: false };
        }
    }
}

/// Merges all clusters into one. In a tie the closer mean directions are joined first, then the
/// smaller numbers.
pub(super) fn agglomerate(clusters: &mut Clusters) -> Vec<Step> {
    let mut left: Vec<usize> = (0..clusters.components()).collect();
    let mut nearest = all_nearest(clusters);
    let mut steps = Vec::with_capacity(left.len().saturating_sub(1));
    while left.len() > 1 {
        let first = *left.iter().min_by(|a, b| nearest[**a].cost.compare(&nearest[**b].cost)).expect("two are left");
        let Nearest { cost, other: second, is_outdated } = nearest[first];
        if is_outdated {
            nearest[first] = search(clusters, first, &left);
            continue;
        }
        steps.push(Step { first, second, cost: cost.cost });
        clusters.merge(first, second);
        left.retain(|cluster| *cluster != second);
        for cluster in left.iter().take_while(|cluster| **cluster < second) {
            let entry = &mut nearest[*cluster];
            entry.is_outdated |= entry.other == first || entry.other == second;
        }
        for (cluster, cost) in costs_of_earlier(clusters, first, &left, &nearest) {
            let entry = &mut nearest[cluster];
            // A tie with a lower bound is left to the next search.
            if !(entry.is_outdated && cost.compare(&entry.cost) == Ordering::Equal) {
                entry.offer(cost, first);
            }
        }
        nearest[first] = search(clusters, first, &left);
    }
    steps
}

/// The nearest later cluster of each.
fn all_nearest(clusters: &Clusters) -> Vec<Nearest> {
    let components = clusters.components();
    let tiles = (0..components.div_ceil(TILE)).into_par_iter().with_max_len(1).flat_map_iter(|tile| {
        let from = tile * TILE;
        let mut found = vec![Nearest::NONE; TILE.min(components - from)];
        for other in from + 1..components {
            for (cluster, nearest) in (from..other).zip(&mut found) {
                nearest.offer(clusters.cost(cluster, other, nearest.cost.cost), other);
            }
        }
        found
    });
    tiles.collect()
}

/// The nearest later cluster of one.
fn search(clusters: &Clusters, cluster: usize, left: &[usize]) -> Nearest {
    let later = &left[left.partition_point(|other| *other <= cluster)..];
    let tasks = later.par_chunks(TASK).map(|others| {
        let mut nearest = Nearest::NONE;
        others.iter().for_each(|other| nearest.offer(clusters.cost(cluster, *other, nearest.cost.cost), *other));
        nearest
    });
    tasks.reduce(
        || Nearest::NONE,
        |mut one, other| {
            one.offer(other.cost, other.other);
            one
        },
    )
}

/// The cost of joining a merged cluster with each earlier one, where it may be the least.
fn costs_of_earlier(clusters: &Clusters, merged: usize, left: &[usize], nearest: &[Nearest]) -> Vec<(usize, Cost)> {
    let earlier = &left[..left.partition_point(|other| *other < merged)];
    let cost = |other: &usize| (*other, clusters.cost(*other, merged, nearest[*other].cost.cost));
    earlier.par_iter().with_min_len(TASK).map(cost).collect()
}
