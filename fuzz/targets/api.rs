//! Any bytes are a request, or are refused. A request that was understood means the same when it is
//! written and read again.

#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use ratelimit_core::api::{
    AllowRequest, ApplyRequest, BanRequest, CaptureRequest, LimitRequest, LimitTarget,
    ObtainRequest, PassAllRequest, PrefixesRequest, ProgramBanRequest, ProgramUnbanRequest,
    ReloadRequest, UnbanMatchingRequest, UnbanRequest,
};
use serde::{Serialize, de::DeserializeOwned};

fuzz_target!(|body: &[u8]| {
    check::<BanRequest>(body);
    check::<AllowRequest>(body);
    check::<PrefixesRequest>(body);
    check::<LimitRequest>(body);
    check::<LimitTarget>(body);
    check::<ProgramBanRequest>(body);
    check::<ProgramUnbanRequest>(body);
    check::<CaptureRequest>(body);
    check::<ApplyRequest>(body);
    check::<PassAllRequest>(body);
    check::<ObtainRequest>(body);
    check::<ReloadRequest>(body);
    check::<UnbanRequest>(body);
    check::<UnbanMatchingRequest>(body);
});

fn check<T: Debug + DeserializeOwned + PartialEq + Serialize>(body: &[u8]) {
    let Ok(request) = serde_json::from_slice::<T>(body) else {
        return;
    };
    let text = serde_json::to_string(&request).expect("a request is JSON");
    let again: T = serde_json::from_str(&text).expect("what we write is what we read");
    assert_eq!(again, request, "{text}");
}
