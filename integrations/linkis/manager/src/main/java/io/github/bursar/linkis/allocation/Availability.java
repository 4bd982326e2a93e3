package io.github.bursar.linkis.allocation;

import io.github.bursar.client.Account;
import io.github.bursar.client.AccountName;
import io.github.bursar.client.ExternalResource;
import io.github.bursar.client.Resource;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.util.List;
import java.util.OptionalLong;
import org.apache.linkis.manager.am.vo.CanCreateECRes;
import org.apache.linkis.manager.common.entity.resource.ResourceType;
import org.apache.linkis.manager.common.utils.ResourceUtils;

/**
 * What is left for a request, as Linkis's check of an engine shows it: of the ECM, the user, the
 * queue.
 */
final class Availability {
  private Availability() {}

  /** Of several quotas, and of a queue and those above it, the least is what is left. */
  static void show(CanCreateECRes answer, List<Account> accounts, ResourceMapper resources, ResourceType type) {
    Resource host = null;
    Resource user = null;
    Resource userInQueue = null;
    Resource queue = null;
    String path = "default";
    for (Account a : accounts) {
      if (a.name().kind() == AccountName.Kind.HOST) {
        host = least(host, a.available());
      } else if (a.name().kind() == AccountName.Kind.QUEUE) {
        String name = a.name().labels().getOrDefault("path", path);
        path = queue == null || name.length() > path.length() ? name : path; // the leaf, not those above it
        queue = least(queue, a.available());
      } else if (a.name().external().isEmpty()) {
        user = least(user, a.available());
      } else {
        userInQueue = least(userInQueue, a.available());
      }
    }
    if (host != null) {
      answer.setEcmResource(json(resources, host, ResourceType.LoadInstance));
    }
    if (user != null || userInQueue != null || queue != null) {
      Resource.Builder b = (user == null ? Resource.EMPTY : user).toBuilder();
      if (userInQueue != null || queue != null) { // the queue bounds also a user without a limit in it
        Resource both = userInQueue == null ? queue : queue == null ? userInQueue : least(userInQueue, queue);
        b.external(ExternalResource.of(ResourceMapper.YARN, "", path, both));
      }
      answer.setLabelResource(json(resources, b.build(), type));
    }
    if (queue != null) {
      Resource part = Resource.builder().external(ExternalResource.of(ResourceMapper.YARN, "", path, queue)).build();
      answer.setYarnResource(json(resources, part, ResourceType.Yarn));
    }
  }

  private static String json(ResourceMapper resources, Resource r, ResourceType type) {
    return ResourceUtils.serializeResource(resources.limitToLinkis(r, type));
  }

  /** The lesser of each quantity; one that is not set is not limited. */
  static Resource least(Resource a, Resource b) {
    Resource.Builder r = Resource.builder();
    least(a == null ? OptionalLong.empty() : a.memoryBytes(), b.memoryBytes()).ifPresent(r::memoryBytes);
    least(a == null ? OptionalLong.empty() : a.cpuMillis(), b.cpuMillis()).ifPresent(r::cpuMillis);
    least(a == null ? OptionalLong.empty() : a.instances(), b.instances()).ifPresent(r::instances);
    return r.build();
  }

  private static OptionalLong least(OptionalLong a, OptionalLong b) {
    if (!a.isPresent() || !b.isPresent()) {
      return a.isPresent() ? a : b;
    }
    return OptionalLong.of(Math.min(a.getAsLong(), b.getAsLong()));
  }
}
