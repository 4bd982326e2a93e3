package io.github.bursar.linkis.mapping;

import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.Resource.Builder;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Pattern;
import org.apache.linkis.manager.common.entity.resource.CPUResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndKubernetesResource;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.InstanceResource;
import org.apache.linkis.manager.common.entity.resource.KubernetesResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.LoadResource;
import org.apache.linkis.manager.common.entity.resource.MemoryResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.entity.resource.SpecialResource;
import org.apache.linkis.manager.common.entity.resource.YarnResource;

/**
 * Resources of both sides. Linkis has a class for each combination of quantities and counts whole
 * cores; Bursar has one vector and counts thousandths. One of Linkis's cores is
 * cpu.millis.per.core;
 * in a queue of YARN a core is a vcore, which is always 1000, and Linkis's Kubernetes types count
 * thousandths themselves. Linkis's "unlimited" is the largest number, ours is a quantity that is
 * not
 * set.
 */
public final class ResourceMapper {
  /** The kind of providers of YARN. */
  public static final String YARN = "yarn";

  /** The kind of providers of Kubernetes. */
  public static final String KUBERNETES = "kubernetes";

  private static final Pattern CUSTOM_NAME = Pattern.compile("[a-zA-Z][a-zA-Z0-9_./-]{0,62}");

  private final int millisPerCore;

  /** With what one of Linkis's cores is, in thousandths of a core. */
  public ResourceMapper(int millisPerCore) {
    this.millisPerCore = millisPerCore;
  }

  /**
   * What a request asks for. No instances are one; a part in a queue that asks for nothing is left
   * out.
   *
   * @throws IllegalArgumentException if a quantity is negative, or unlimited: a request is neither
   */
  public io.github.bursar.client.Resource request(Resource r) {
    return request(r, "");
  }

  /** The same with the cluster that a part in a queue of YARN is in; empty: the default one. */
  public io.github.bursar.client.Resource request(Resource r, String yarnCluster) {
    io.github.bursar.client.Resource all = toBursar(r);
    Builder trimmed = io.github.bursar.client.Resource.builder();
    all.memoryBytes().ifPresent(trimmed::memoryBytes);
    all.cpuMillis().ifPresent(trimmed::cpuMillis);
    if (all.instances().orElse(0) > 0) {
      trimmed.instances(all.instances().getAsLong());
    }
    all.custom().forEach(trimmed::custom);
    for (ExternalResource part : all.external()) {
      io.github.bursar.client.Resource a = part.amount();
      if (a.memoryBytes().orElse(0) > 0 || a.cpuMillis().orElse(0) > 0 || a.instances().orElse(0) > 0) {
        String cluster = part.kind().equals(YARN) ? yarnCluster : part.cluster();
        trimmed.external(ExternalResource.of(part.kind(), cluster, part.path(), a));
      }
    }
    return trimmed.build();
  }

  private io.github.bursar.client.Resource toBursar(Resource r) {
    Builder b = io.github.bursar.client.Resource.builder();
    if (r instanceof DriverAndYarnResource) {
      load(b, ((DriverAndYarnResource) r).getLoadInstanceResource());
      yarn(b, ((DriverAndYarnResource) r).getYarnResource());
    } else if (r instanceof DriverAndKubernetesResource) {
      load(b, ((DriverAndKubernetesResource) r).getLoadInstanceResource());
      kubernetes(b, ((DriverAndKubernetesResource) r).getKubernetesResource());
    } else if (r instanceof LoadInstanceResource) {
      load(b, (LoadInstanceResource) r);
    } else if (r instanceof LoadResource) {
      memory(b, "memory", ((LoadResource) r).getMemory());
      cores(b, "cores", ((LoadResource) r).getCores(), millisPerCore);
    } else if (r instanceof MemoryResource) {
      memory(b, "memory", ((MemoryResource) r).getMemory());
    } else if (r instanceof InstanceResource) { // before CPU, which it extends
      instances(b, "instances", ((InstanceResource) r).getInstances());
    } else if (r instanceof CPUResource) {
      cores(b, "cores", ((CPUResource) r).getCores(), millisPerCore);
    } else if (r instanceof YarnResource) {
      yarn(b, (YarnResource) r);
    } else if (r instanceof KubernetesResource) {
      kubernetes(b, (KubernetesResource) r);
    } else if (r instanceof SpecialResource) {
      special(b, (SpecialResource) r);
    } else {
      throw new IllegalArgumentException(
          "resource: " + (r == null ? "there is none" : r.getClass().getName()) + ": want one of Linkis's types of resources");
    }
    return b.build();
  }

  private void load(Builder b, LoadInstanceResource r) {
    there("loadInstanceResource", r);
    memory(b, "memory", r.getMemory());
    cores(b, "cores", r.getCores(), millisPerCore);
    instances(b, "instances", r.getInstances());
  }

  private static void yarn(Builder b, YarnResource r) {
    there("yarnResource", r);
    Builder amount = io.github.bursar.client.Resource.builder();
    memory(amount, "queueMemory", r.getQueueMemory());
    cores(amount, "queueCores", r.getQueueCores(), 1000);
    instances(amount, "queueInstances", r.getQueueInstances());
    part(b, YARN, "queueName", r.getQueueName(), amount);
  }

  private static void kubernetes(Builder b, KubernetesResource r) {
    there("kubernetesResource", r);
    Builder amount = io.github.bursar.client.Resource.builder();
    memory(amount, "memory", r.getMemory());
    amount.cpuMillis(known("cores", r.getCores(), Long.MAX_VALUE));
    part(b, KUBERNETES, "namespace", r.getNamespace(), amount);
  }

  private static void part(Builder b, String kind, String field, String path, Builder amount) {
    if (path == null || path.isEmpty()) {
      throw new IllegalArgumentException(field + ": it is empty: want the name of one");
    }
    b.external(ExternalResource.of(kind, "", path, amount.build()));
  }

  private static void special(Builder b, SpecialResource r) {
    there("resources", r.getResources());
    r.getResources().forEach(
        (name, value) -> {
          String field = "resources[" + name + "]";
          if (name == null || !CUSTOM_NAME.matcher(name).matches()) {
            throw new IllegalArgumentException(field + ": the name has to match " + CUSTOM_NAME);
          }
          double d = value instanceof Number ? ((Number) value).doubleValue() : -1;
          long n = value instanceof Number ? ((Number) value).longValue() : -1;
          if (n < 0 || d != (double) n) {
            throw new IllegalArgumentException(field + " is " + value + ": want a whole number from 0");
          }
          if (n > io.github.bursar.client.Resource.MAX_QUANTITY) {
            throw tooLarge(field, n);
          }
          b.custom(name, n);
        });
  }

  private static void memory(Builder b, String field, long n) {
    b.memoryBytes(known(field, n, Long.MAX_VALUE));
  }

  private static void cores(Builder b, String field, int n, int millis) {
    b.cpuMillis(known(field, n, Integer.MAX_VALUE) * millis); // less than 2^31 × 10^6
  }

  private static void instances(Builder b, String field, int n) {
    b.instances(known(field, n, Integer.MAX_VALUE));
  }

  /** The quantity, if a request can have it. */
  private static long known(String field, long n, long unlimited) {
    if (n < 0) {
      throw new IllegalArgumentException(field + " is " + n + ": want 0 or more");
    }
    if (n == unlimited) {
      throw new IllegalArgumentException(field + " is unlimited (" + n + "): a request has to say how much");
    }
    if (n > io.github.bursar.client.Resource.MAX_QUANTITY) {
      throw tooLarge(field, n);
    }
    return n;
  }

  private static IllegalArgumentException tooLarge(String field, long n) {
    return new IllegalArgumentException(
        field + " is " + n + ": want at most " + io.github.bursar.client.Resource.MAX_QUANTITY);
  }

  private static void there(String field, Object o) {
    if (o == null) {
      throw new IllegalArgumentException(field + ": it is missing");
    }
  }

  /** A resource of Linkis's type, cores rounded down; what is not set is unlimited. */
  public Resource limitToLinkis(io.github.bursar.client.Resource r, ResourceType type) {
    switch (type) {
      case Memory:
        return new MemoryResource(bytes(r.memoryBytes()));
      case CPU:
        return new CPUResource(whole(r.cpuMillis(), millisPerCore));
      case Instance:
        return new InstanceResource(whole(r.instances(), 1));
      case LoadInstance:
        return loadInstance(r);
      case Yarn:
        return yarn(part(r, YARN));
      case DriverAndYarn:
        return new DriverAndYarnResource(loadInstance(r), yarn(part(r, YARN)));
      case Kubernetes:
        return kubernetes(part(r, KUBERNETES));
      case DriverAndKubernetes:
        return new DriverAndKubernetesResource(loadInstance(r), kubernetes(part(r, KUBERNETES)));
      case Special:
        return new SpecialResource(new LinkedHashMap<>(r.custom()));
      default: // Load, Default
        return new LoadResource(bytes(r.memoryBytes()), whole(r.cpuMillis(), millisPerCore));
    }
  }

  private LoadInstanceResource loadInstance(io.github.bursar.client.Resource r) {
    return new LoadInstanceResource(
        bytes(r.memoryBytes()), whole(r.cpuMillis(), millisPerCore), whole(r.instances(), 1));
  }

  private static YarnResource yarn(ExternalResource part) {
    io.github.bursar.client.Resource a = part == null ? io.github.bursar.client.Resource.EMPTY : part.amount();
    return new YarnResource(
        bytes(a.memoryBytes()),
        whole(a.cpuMillis(), 1000),
        whole(a.instances(), 1),
        part == null ? "default" : part.path(),
        "");
  }

  private static KubernetesResource kubernetes(ExternalResource part) {
    io.github.bursar.client.Resource a = part == null ? io.github.bursar.client.Resource.EMPTY : part.amount();
    return new KubernetesResource(
        bytes(a.memoryBytes()), bytes(a.cpuMillis()), part == null ? "default" : part.path());
  }

  private static ExternalResource part(io.github.bursar.client.Resource r, String kind) {
    return r.external().stream().filter(p -> p.kind().equals(kind)).findFirst().orElse(null);
  }

  private static long bytes(OptionalLong n) {
    return n.orElse(Long.MAX_VALUE);
  }

  /** Whole units, rounded down. Large numbers are unlimited. */
  private static int whole(OptionalLong n, int unit) {
    return (int) Math.min(Integer.MAX_VALUE, n.isPresent() ? n.getAsLong() / unit : Integer.MAX_VALUE);
  }

  /** The application that a report of an engine names; empty: none. */
  public static List<String> applicationIds(Resource r) {
    YarnResource y = null;
    if (r instanceof DriverAndYarnResource) {
      y = ((DriverAndYarnResource) r).getYarnResource();
    } else if (r instanceof YarnResource) {
      y = (YarnResource) r;
    }
    String id = y == null || y.getApplicationId() == null ? "" : y.getApplicationId().trim();
    return id.isEmpty() ? Collections.emptyList() : Collections.singletonList(id);
  }
}
