-- Limits requests of users by [keys.users] of ratelimitd. In haproxy.cfg:
--
--   global
--     lua-load /etc/haproxy/ratelimit.lua
--   frontend web
--     http-request lua.ratelimit users
local ADDRESS = "http://127.0.0.1:9180/v1/forward-auth/"
-- Headers of the connection or the body, which are not sent to ratelimitd.
local LEFT_OUT = { connection = true, ["content-length"] = true, expect = true, host = true,
    ["transfer-encoding"] = true, upgrade = true }
local COPIED = { "ratelimit-policy", "ratelimit", "retry-after" }

core.register_action("ratelimit", { "http-req" }, function(txn, space)
    local asked = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        if not LEFT_OUT[name] then
            asked[name] = {}
            for _, value in pairs(values) do
                table.insert(asked[name], value)
            end
        end
    end
    asked["x-forwarded-for"] = { txn.f:src() }
    asked["x-forwarded-uri"] = { txn.f:pathq() }
    local url = ADDRESS .. space
    local answer = core.httpclient():get({ url = url, headers = asked, timeout = 1000 })
    if answer.status == 204 then
        return
    end
    local reply = txn:reply()
    if answer.status == 429 then
        reply:set_status(429, "Too Many Requests")
        for _, name in ipairs(COPIED) do
            for _, value in pairs(answer.headers[name] or {}) do
                reply:add_header(name, value)
            end
        end
    else
        reply:set_status(503, "Service Unavailable")
    end
    txn:done(reply)
end, 1)
