package io.github.bursar.linkis.placement;

import io.github.bursar.client.BursarClient;
import io.github.bursar.linkis.BursarAutoConfiguration;
import io.github.bursar.linkis.OnMode;
import io.github.bursar.linkis.mapping.LabelMapper;
import io.github.bursar.linkis.mapping.ResourceMapper;
import java.time.Duration;
import org.apache.linkis.manager.service.common.label.LabelFilter;
import org.apache.linkis.manager.am.selector.rule.NodeSelectRule;
import org.apache.linkis.manager.am.service.engine.DefaultEngineCreateService;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.boot.autoconfigure.AutoConfigureAfter;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Configuration;

/** Chooses ECMs by what Bursar says of their hosts while Bursar decides. */
@Configuration(proxyBeanMethods = false)
@AutoConfigureAfter(BursarAutoConfiguration.class)
@ConditionalOnClass(name = "org.apache.linkis.manager.rm.service.impl.DefaultResourceManager")
@Conditional(OnMode.Enforce.class)
public class PlacementConfiguration {
  private static final Duration PATIENCE = Duration.ofSeconds(1);

  /**
   * Makes Linkis's service that creates engines one that notes what its thread creates. It stays one
   * bean: Linkis injects it by its class, and its RPC receivers must not be there twice.
   */
  @Bean
  public static BeanFactoryPostProcessor bursarEngineCreateService() {
    return factory -> {
      for (String name : factory.getBeanDefinitionNames()) {
        BeanDefinition bean = factory.getBeanDefinition(name);
        if (DefaultEngineCreateService.class.getName().equals(bean.getBeanClassName())) {
          bean.setBeanClassName(BursarEngineCreateService.class.getName());
        }
      }
    };
  }

  /** The last of Linkis's rules. */
  @Bean
  public NodeSelectRule bursarNodeSelectRule(
      BursarClient bursar,
      LabelMapper labels,
      ResourceMapper resources,
      LabelFilter labelFilter,
      ObjectProvider<DefaultEngineCreateService> create) {
    return new BursarNodeSelectRule(
        new HostChooser(() -> HostChooser.hosts(bursar, PATIENCE), System::nanoTime),
        new RequestSize(create::getObject, labelFilter, resources::request),
        ecm -> labels.host(ecm.getInstance()));
  }
}
