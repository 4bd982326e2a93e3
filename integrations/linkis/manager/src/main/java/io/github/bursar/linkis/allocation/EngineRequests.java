package io.github.bursar.linkis.allocation;

import io.github.bursar.client.AllocateRequest;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import org.apache.linkis.manager.common.entity.resource.NodeResource;
import org.apache.linkis.manager.rm.domain.RMLabelContainer;

/** Requests of engines in Bursar's words. */
final class EngineRequests {
  private EngineRequests() {}

  /**
   * The request of an engine that was assigned to an ECM. What cannot be asked for is Linkis's
   * error.
   */
  static AllocateRequest.Builder of(LabelMapper labels, ResourceMapper resources, RMLabelContainer container, NodeResource resource) {
    try {
      return AllocateRequest.builder()
          .host(labels.host(container.getEMInstanceLabel()))
          .labels(labels.labels(container.getLabels()))
          .resource(resources.request(resource.getMinResource(), LabelMapper.yarnCluster(container.getLabels())));
    } catch (IllegalArgumentException e) {
      throw LinkisErrors.wrong("request of an engine: " + e.getMessage());
    }
  }
}
