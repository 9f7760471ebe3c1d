//! The country and network of addresses, from the databases that lists select from.

use std::{collections::BTreeSet, net::IpAddr, path::PathBuf, time::Duration};

use ratelimit_core::{
    geo::{Database, Place},
    list_file,
};

use crate::{clock, control::state::State};

/// The longest wait of an answer for the file system of the databases.
const PATIENCE: Duration = Duration::from_secs(2);

/// The databases of the running configuration.
pub fn databases(state: &State) -> BTreeSet<PathBuf> {
    let lists = state.intent.config.lists.values();
    let lists = lists.filter(|list| list.selection.is_some());
    lists.map(|list| list.file.clone()).collect()
}

/// Looks the addresses up, without the controller. An unreadable database has no answer; the list
/// that selects from it reports why.
pub async fn places(databases: BTreeSet<PathBuf>, addresses: Vec<IpAddr>) -> Vec<Option<Place>> {
    let nothing = vec![None; addresses.len()];
    if databases.is_empty() || addresses.is_empty() {
        return nothing;
    }
    let found = tokio::task::spawn_blocking(move || look_up(&databases, &addresses));
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(Ok(places)) => places,
        Ok(Err(_)) | Err(_) => nothing,
    }
}

fn look_up(databases: &BTreeSet<PathBuf>, addresses: &[IpAddr]) -> Vec<Option<Place>> {
    let mut places = vec![None; addresses.len()];
    for path in databases {
        let name = path.display().to_string();
        let Ok(file) = list_file::read_file(path, clock::wall()) else {
            continue;
        };
        let Ok(database) = Database::open(&name, file.bytes()) else {
            continue;
        };
        for (place, address) in places.iter_mut().zip(addresses) {
            let known: Option<Place> = place.take();
            *place = match (known, database.place(*address)) {
                (Some(known), Some(found)) => Some(known.or(found)),
                (known, found) => known.or(found),
            };
        }
    }
    places
}
