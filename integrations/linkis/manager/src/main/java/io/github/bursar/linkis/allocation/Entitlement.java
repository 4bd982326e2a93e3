package io.github.bursar.linkis.allocation;

import io.github.bursar.client.ExternalResource;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.linkis.manager.common.entity.resource.DriverAndYarnResource;
import org.apache.linkis.manager.common.entity.resource.Resource;
import org.apache.linkis.manager.common.entity.resource.YarnResource;

/**
 * What an engine is really entitled to. What it reports of memory and cpu on its host is a
 * measurement or its heap, and never less than was granted counts. In a queue it may have fewer
 * executors than it asked for, and says so.
 */
final class Entitlement {
  private Entitlement() {}

  /** Whether an engine reports what it has in a queue. */
  static boolean inQueue(Resource reported) {
    return yarn(reported) != null;
  }

  /** What was granted with a smaller part in its queue; empty: it is as granted. */
  static Optional<io.github.bursar.client.Resource> smaller(io.github.bursar.client.Resource granted, Resource reported) {
    YarnResource said = yarn(reported);
    if (said == null || said.getQueueMemory() <= 0 || said.getQueueCores() <= 0) {
      return Optional.empty();
    }
    io.github.bursar.client.Resource.Builder b = io.github.bursar.client.Resource.builder();
    granted.memoryBytes().ifPresent(b::memoryBytes);
    granted.cpuMillis().ifPresent(b::cpuMillis);
    granted.instances().ifPresent(b::instances);
    granted.custom().forEach(b::custom);
    boolean changed = false;
    for (ExternalResource part : granted.external()) {
      ExternalResource next = part;
      if (part.kind().equals(ResourceMapper.YARN)) {
        io.github.bursar.client.Resource.Builder a = part.amount().toBuilder();
        boolean less = false;
        less |= less(part.amount().memoryBytes(), said.getQueueMemory());
        less |= less(part.amount().cpuMillis(), 1000L * said.getQueueCores());
        less |= said.getQueueInstances() > 0 && less(part.amount().instances(), said.getQueueInstances());
        if (less) {
          part.amount().memoryBytes().ifPresent(n -> a.memoryBytes(Math.min(n, said.getQueueMemory())));
          part.amount().cpuMillis().ifPresent(n -> a.cpuMillis(Math.min(n, 1000L * said.getQueueCores())));
          if (said.getQueueInstances() > 0) {
            part.amount().instances().ifPresent(n -> a.instances(Math.min(n, said.getQueueInstances())));
          }
          next = part.withAmount(a.build());
          changed = true;
        }
      }
      b.external(next);
    }
    return changed ? Optional.of(b.build()) : Optional.empty();
  }

  private static boolean less(OptionalLong granted, long said) {
    return granted.isPresent() && said < granted.getAsLong();
  }

  /** Linkis's row of it with the engine's application. */
  static Resource withApplication(Resource held, List<String> applications) {
    YarnResource y = yarn(held);
    if (y == null || applications.isEmpty()) {
      return held;
    }
    YarnResource named = new YarnResource(y.getQueueMemory(), y.getQueueCores(), y.getQueueInstances(), y.getQueueName(), applications.get(0));
    return held instanceof DriverAndYarnResource
        ? new DriverAndYarnResource(((DriverAndYarnResource) held).getLoadInstanceResource(), named)
        : named;
  }

  private static YarnResource yarn(Resource r) {
    if (r instanceof DriverAndYarnResource) {
      return ((DriverAndYarnResource) r).getYarnResource();
    }
    return r instanceof YarnResource ? (YarnResource) r : null;
  }
}
