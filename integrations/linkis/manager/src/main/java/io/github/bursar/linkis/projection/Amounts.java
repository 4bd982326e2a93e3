package io.github.bursar.linkis.projection;

import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.Resource;
import java.util.OptionalLong;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.LoadInstanceResource;
import org.apache.linkis.manager.common.entity.resource.YarnResource;

/** Quantities that are added up or bounded, on hosts and in queues, in Bursar's units. */
final class Amounts {
  static final String YARN = "yarn";

  long memory;
  long cpu;
  long instances;
  long queueMemory;
  long queueCpu;
  long queueInstances;

  /** More than anything has: nothing limits. */
  static Amounts unlimited() {
    Amounts a = new Amounts();
    a.memory = a.cpu = a.instances = a.queueMemory = a.queueCpu = a.queueInstances = Long.MAX_VALUE;
    return a;
  }

  static Amounts of(Resource r) {
    Amounts a = new Amounts();
    a.add(r);
    return a;
  }

  void add(Resource r) {
    memory = sum(memory, r.memoryBytes().orElse(0));
    cpu = sum(cpu, r.cpuMillis().orElse(0));
    instances = sum(instances, r.instances().orElse(0));
    for (ExternalResource part : r.external()) {
      if (part.kind().equals(YARN)) {
        queueMemory = sum(queueMemory, part.amount().memoryBytes().orElse(0));
        queueCpu = sum(queueCpu, part.amount().cpuMillis().orElse(0));
        queueInstances = sum(queueInstances, part.amount().instances().orElse(0));
      }
    }
  }

  private static long sum(long a, long b) {
    long sum = a + b;
    return sum < 0 ? Long.MAX_VALUE : sum;
  }

  /** Makes what is more than this as little as this, on hosts. Dimensions that are unset do not bound. */
  void bound(Resource r) {
    memory = least(memory, r.memoryBytes());
    cpu = least(cpu, r.cpuMillis());
    instances = least(instances, r.instances());
  }

  /** The same in queues. */
  void boundQueues(Resource r) {
    queueMemory = least(queueMemory, r.memoryBytes());
    queueCpu = least(queueCpu, r.cpuMillis());
    queueInstances = least(queueInstances, r.instances());
  }

  private static long least(long a, OptionalLong b) {
    return b.isPresent() ? Math.min(a, Math.max(0, b.getAsLong())) : a;
  }

  /** Makes what is more than others as little as they are. */
  void bound(Amounts a) {
    memory = Math.min(memory, a.memory);
    cpu = Math.min(cpu, a.cpu);
    instances = Math.min(instances, a.instances);
    queueMemory = Math.min(queueMemory, a.queueMemory);
    queueCpu = Math.min(queueCpu, a.queueCpu);
    queueInstances = Math.min(queueInstances, a.queueInstances);
  }

  /** What is left of this after the others, not less than nothing. */
  Amounts without(Amounts a, Amounts b) {
    Amounts left = new Amounts();
    left.memory = rest(memory, a.memory, b.memory);
    left.cpu = rest(cpu, a.cpu, b.cpu);
    left.instances = rest(instances, a.instances, b.instances);
    left.queueMemory = rest(queueMemory, a.queueMemory, b.queueMemory);
    left.queueCpu = rest(queueCpu, a.queueCpu, b.queueCpu);
    left.queueInstances = rest(queueInstances, a.queueInstances, b.queueInstances);
    return left;
  }

  private static long rest(long n, long a, long b) {
    return n == Long.MAX_VALUE ? n : Math.max(0, n - sum(a, b));
  }

  /**
   * As Linkis has it.
   *
   * @param used whether a part of a core counts as a whole one, as it does in what is used
   */
  LoadInstanceResource load(long millisPerCore, boolean used) {
    return new LoadInstanceResource(memory, whole(cpu, millisPerCore, used), clamp(instances));
  }

  /** As Linkis has it, with what is in queues; a vcore is 1000 millicores. */
  DriverAndYarnResource loadAndYarn(long millisPerCore, String queue, boolean used) {
    return new DriverAndYarnResource(
        load(millisPerCore, used),
        new YarnResource(queueMemory, whole(queueCpu, 1000, used), clamp(queueInstances), queue, ""));
  }

  private static int whole(long millis, long perCore, boolean up) {
    return clamp(millis / perCore + (up && millis % perCore > 0 ? 1 : 0));
  }

  private static int clamp(long n) {
    return (int) Math.min(n, Integer.MAX_VALUE);
  }
}
