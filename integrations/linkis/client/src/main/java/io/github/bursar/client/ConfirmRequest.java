package io.github.bursar.client;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;

/**
 * That an engine runs. An agent wants a pid; a coordinator a pid, an address, applications or a
 * lease.
 */
public final class ConfirmRequest {
  private final ObjectNode json;

  private ConfirmRequest(ObjectNode json) {
    this.json = json;
  }

  ObjectNode toJson() {
    return json.deepCopy();
  }

  /** A builder for this allocation. */
  public static Builder builder(String id) {
    return new Builder(id);
  }

  /** Builds a confirmation. */
  public static final class Builder {
    private final String id;
    private Resource entitled;
    private int pid;
    private long startTime;
    private String cgroup;
    private String address;
    private final List<String> applicationIds = new ArrayList<>();
    private Duration lease;
    private Phase phase = Phase.UNSPECIFIED;

    private Builder(String id) {
      this.id = Objects.requireNonNull(id, "id");
    }

    /**
     * What the engine is entitled to from now on: never more than reserved, never a measurement.
     */
    public Builder entitled(Resource entitled) {
      this.entitled = entitled;
      return this;
    }

    /** Its pid, as the caller sees it. */
    public Builder pid(int pid) {
      this.pid = pid;
      return this;
    }

    /** The process's start in clock ticks after boot (field 22 of /proc/PID/stat). */
    public Builder startTime(long ticks) {
      startTime = ticks;
      return this;
    }

    /** The engine's own cgroup, if it has one. */
    public Builder cgroup(String cgroup) {
      this.cgroup = cgroup;
      return this;
    }

    /** Where the engine can be reached. */
    public Builder address(String address) {
      this.address = address;
      return this;
    }

    /** Its applications in external clusters. */
    public Builder applicationIds(Collection<String> ids) {
      applicationIds.addAll(ids);
      return this;
    }

    /** For an engine without a pid on the host: how long it lives without a renewal. */
    public Builder lease(Duration lease) {
      this.lease = lease;
      return this;
    }

    /** How far the engine is. Ready and failed stay. */
    public Builder phase(Phase phase) {
      this.phase = Objects.requireNonNull(phase, "phase");
      return this;
    }

    /** The confirmation. */
    public ConfirmRequest build() {
      ObjectNode o = Json.object().put("id", id);
      if (entitled != null) {
        o.set("entitled", entitled.toJson());
      }
      if (pid != 0) {
        ObjectNode process = o.putObject("process").put("pid", pid);
        if (startTime != 0) {
          process.put("startTime", Long.toUnsignedString(startTime));
        }
        Json.putText(process, "cgroup", cgroup);
      }
      Json.putText(o, "address", address);
      if (!applicationIds.isEmpty()) {
        ArrayNode a = o.putArray("applicationIds");
        applicationIds.forEach(a::add);
      }
      Json.putDuration(o, "lease", lease);
      if (phase != Phase.UNSPECIFIED) {
        o.put("phase", phase.wireName());
      }
      return new ConfirmRequest(o);
    }
  }
}
